"""Expected results of the matrix products and attention kernels, in fp64."""
import numpy as np

import formats as F

CASES = {}


def case(*names):
    def add(fn):
        for name in names:
            CASES[name] = lambda new, name=name: fn(new, name)
        return fn
    return add


def rng(name):
    return np.random.default_rng(sum(name.encode()))


def cdiv(a, b):
    return -(-a // b)


def normal(g, shape, kind):
    """Random operand: stored array and its values."""
    x = g.standard_normal(shape)
    if kind == "f16":
        a = x.astype(np.float16)
        return a, a.astype(np.float64)
    if kind == "bf16":
        a = F.bf16(x)
        return a, F.up(a)
    if kind == "tf32":
        a = F.tf32(x)
        return a, a.astype(np.float64)
    if kind == "s8":
        a = g.integers(-128, 128, shape).astype(np.int8)
        return a, a.astype(np.float64)
    fmt = dict(e4m3=F.E4M3, e5m2=F.E5M2)[kind]
    a = F.encode(x * 8, fmt)
    return a, F.decode(a, fmt)


# name: tile, shape, transposed storage of A and B, kinds, output type and tolerance
POINTERS = {
    "mm_f16_m64_tail": ((64, 64), (100, 90, 150), False, False, "f16", "f16", "f32"),
    "mm_f16_mn_major": ((128, 64), (256, 64, 208), True, False, "f16", "f16", "f32"),
    "mm_tf32": ((128, 64), (128, 128, 80), False, True, "tf32", "tf32", "f32"),
    "mm_e4m3_e5m2_n256": ((128, 256), (128, 256, 160), False, True, "e4m3", "e5m2", "f32"),
    "mm_e5m2_mn_major": ((128, 64), (128, 128, 192), False, False, "e5m2", "e5m2", "f32"),
    "mm_small_f16": ((16, 16), (48, 32, 80), False, False, "f16", "f16", "f32"),
    "mm_small_bf16": ((32, 32), (64, 96, 112), False, True, "bf16", "bf16", "bf16"),
    "mm_small_e4m3": ((16, 32), (48, 64, 144), False, True, "e4m3", "e4m3", "f32"),
}


@case(*POINTERS)
def pointers(new, name):
    (bm, bn), (M, N, K), ta, tb, ka, kb, kc = POINTERS[name]
    g = rng(name)
    a, av = normal(g, (K, M) if ta else (M, K), ka)
    b, bv = normal(g, (N, K) if tb else (K, N), kb)
    ref = (av.T if ta else av) @ (bv.T if tb else bv)
    c = new((cdiv(M, bm), cdiv(N, bn)))
    c.inp("a", a)
    c.inp("b", b)
    if kc == "bf16":
        c.out("c", ref, bf16=True, rel=3e-3)
    else:
        c.out("c", ref.astype(np.float32), rel=1e-5)
    c.i32(M, N, K)
    c.close()


@case("mm_f16_acc16")
def acc16(new, name):
    """An fp16 accumulator over small integers: every partial sum is exact."""
    M, N, K = 128, 128, 192
    g = rng(name)
    a, b = (g.integers(-3, 4, (n, K)).astype(np.float16) for n in (M, N))
    c = new((1, 2))
    c.inp("a", a)
    c.inp("b", b)
    c.out("c", (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16))
    c.i32(M, N, K)
    c.close()


@case("mm_small_s8")
def small_s8(new, name):
    M, N, K = 64, 64, 192
    g = rng(name)
    a, b = (normal(g, (n, K), "s8") for n in (M, N))
    c = new((2, 2))
    c.inp("a", a[0])
    c.inp("b", b[0])
    c.out("c", (a[1] @ b[1].T).astype(np.int32))
    c.i32(M, N, K)
    c.close()


@case("mm_bf16_gelu")
def gelu(new, name):
    M, N, K = 256, 64, 320
    g = rng(name)
    (a, av), (b, bv) = normal(g, (M, K), "bf16"), normal(g, (N, K), "bf16")
    b = F.bf16(bv * 0.06)
    bias = g.standard_normal(N).astype(np.float32)
    v = av @ F.up(b).T + bias
    ref = 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v ** 3)))
    c = new((2, 1))
    c.inp("a", a)
    c.inp("b", b)
    c.inp("bias", bias)
    c.out("c", ref, bf16=True, rel=3e-3)
    c.i32(N, K)
    c.close()


@case("mm_f16_softmax")
def softmax(new, name):
    M, N, K = 128, 64, 192
    g = rng(name)
    a, b = (g.standard_normal((n, K)).astype(np.float16) * np.float16(0.3) for n in (M, N))
    s = a.astype(np.float64) @ b.astype(np.float64).T
    e = np.exp(s - s.max(1, keepdims=True))
    c = new((2,))
    c.inp("a", a)
    c.inp("b", b)
    c.out("c", (e / e.sum(1, keepdims=True)).astype(np.float32), rel=1e-5)
    c.i32(K)
    c.close()


# name: tile, shape, B stored [N, K], kinds of A and B, of C
TMA = {
    "mm_tma_bf16": ((128, 64), (200, 96, 144), False, "bf16", "bf16"),
    "mm_tma_tf32_m64": ((64, 64), (96, 80, 80), True, "tf32", "f32"),
    "mm_tma_e4m3": ((128, 64), (256, 64, 208), True, "e4m3", "f16"),
    "mm_tma_f16_late_wait": ((128, 64), (128, 64, 192), True, "f16", "f16"),
    "mm_tma_cluster2": ((256, 128), (256, 128, 192), True, "f16", "f16"),
}


@case(*TMA)
def tma(new, name):
    """Shapes that are no multiple of the tile: the maps fill with zeros and clip the stores."""
    (bm, bn), (M, N, K), tb, kind, kc = TMA[name]
    g = rng(name)
    a, av = normal(g, (M, K), kind)
    b, bv = normal(g, (N, K) if tb else (K, N), kind)
    ref = av @ (bv.T if tb else bv)
    c = new((cdiv(M, bm), cdiv(N, bn)))
    c.tensor("a", a)
    c.tensor("b", b)
    result(c, ref, kc)
    c.i32(K)
    c.close()


def result(c, ref, kind):
    if kind == "bf16":
        c.tensor("c", np.full(ref.shape, 0x7FFF, np.uint16), ref, bf16=True, rel=3e-3)
    elif kind == "f16":
        c.tensor("c", np.full(ref.shape, np.nan, np.float16), ref.astype(np.float32), rel=4e-4)
    else:
        c.tensor("c", np.full(ref.shape, np.nan, np.float32), ref.astype(np.float32), rel=1e-5)


@case("mm_persistent", "mm_persistent_ws")
def persistent(new, name):
    M, N, K = 320, 128, 144
    g = rng(name)
    (a, av), (b, bv) = normal(g, (M, K), "f16"), normal(g, (N, K), "f16")
    c = new((2,))
    c.tensor("a", a)
    c.tensor("b", b)
    result(c, av @ bv.T, "f16")
    c.i32(M, N, K)
    c.close()


@case("mm_roles_sm103")
def roles(new, name):
    M, N, K = 128, 128, 400
    g = rng(name)
    (a, av), (b, bv) = normal(g, (M, K), "bf16"), normal(g, (N, K), "bf16")
    c = new((1, 2))
    c.tensor("a", a)
    c.tensor("b", b)
    c.out("c", (av @ bv.T).astype(np.float32), rel=1e-5)
    c.i32(N, K)
    c.close()


def scaled_operand(g, rows, K, kind, vec):
    """Stored bytes and scales, and the values of their product; any finite code is used."""
    if kind == "e2m1":
        code = g.integers(0, 16, (rows, K)).astype(np.uint8)
        a, v = F.pack4(code), F.decode(code, F.E2M1)
    elif kind == "bf16":
        return (*normal(g, (rows, K), "bf16"), None)
    else:
        fmt = dict(e4m3=F.E4M3, e5m2=F.E5M2)[kind]
        a = g.integers(0, 256, (rows, K)).astype(np.uint8)
        a = np.where((a & 0x7F) >= len(fmt[0]), 0x38, a).astype(np.uint8)
        if kind == "e5m2":  # keep the spread of products small enough for fp32 sums
            a = (a & 0x9F) | 0x20
            a = a.astype(np.uint8)
        v = F.decode(a, fmt)
    if vec == 16:
        s = g.integers(0x20, 0x58, (rows, K // vec)).astype(np.uint8)
        f = F.decode(s, F.E4M3)
    else:
        s = g.integers(118, 137, (rows, K // vec)).astype(np.uint8)
        f = 2.0 ** (s - 127.0)
    return a, v * np.repeat(f, vec, 1), s


# name: tile, shape, kinds, elements per scale
SCALED = {
    "mm_mxfp8": ((128, 64), (128, 128, 384), "e4m3", "e4m3", 32),
    "mm_mxfp8_e5m2_fp4": ((128, 64), (128, 64, 384), "e5m2", "e2m1", 32),
    "mm_mxfp4": ((128, 64), (256, 64, 384), "e2m1", "e2m1", 32),
    "mm_nvfp4": ((128, 64), (128, 128, 384), "e2m1", "e2m1", 16),
    "mm_nvfp4_sm103": ((128, 128), (128, 128, 768), "e2m1", "e2m1", 16),
    "mm_bf16_mxfp4": ((128, 64), (128, 64, 192), "bf16", "e2m1", 32),
    "mm_mxfp8_tma": ((128, 128), (128, 256, 384), "e4m3", "e4m3", 32),
    "mm_nvfp4_tma": ((128, 128), (256, 128, 512), "e2m1", "e2m1", 16),
}


@case(*SCALED)
def scaled(new, name):
    (bm, bn), (M, N, K), ka, kb, vec = SCALED[name]
    g = rng(name)
    a, av, sa = scaled_operand(g, M, K, ka, vec)
    b, bv, sb = scaled_operand(g, N, K, kb, vec)
    c = new((M // bm, N // bn))
    if name.endswith("_tma"):
        c.tensor("a", a)
        c.tensor("sa", F.scale_atoms(sa))
        c.tensor("b", b)
        c.tensor("sb", F.scale_atoms(sb))
    else:
        c.inp("a", a)
        if sa is not None:
            c.inp("sa", sa)
        c.inp("b", b)
        c.inp("sb", sb)
    c.out("c", (av @ bv.T).astype(np.float32), rel=1e-5)
    c.i32(N, K)
    c.close()


# name: query tile, key tile, tokens, heads, head width, causal, kind
ATTENTION = {
    "attn_ragged_d64": (128, 64, 200, 2, 64, False, "bf16"),
    "attn_causal_ragged_d64": (64, 64, 150, 2, 64, True, "f16"),
    "attn_tma_causal_d128": (128, 64, 256, 2, 128, True, "bf16"),
    "attn_tma_ws_d64": (128, 64, 256, 2, 64, False, "f16"),
    "attn_tma_ws_causal_d128": (128, 128, 256, 1, 128, True, "bf16"),
    "attn_tma_e4m3_d64": (128, 64, 256, 1, 64, False, "e4m3"),
}


@case(*ATTENTION)
def attention(new, name):
    bm, bn, T, H, D, causal, kind = ATTENTION[name]
    g = rng(name)
    (q, qv), (k, kv), (v, vv) = (normal(g, (H * T, D), kind) for _ in range(3))
    if kind == "e4m3":
        q, k, v = (F.encode(x / 8, F.E4M3) for x in (qv, kv, vv))
        qv, kv, vv = (F.decode(x, F.E4M3) for x in (q, k, v))
    scale = float(np.float32(np.log2(np.e) / np.sqrt(D)))
    rows, out, lse = np.arange(T), np.zeros((H * T, D)), np.zeros(H * T)
    for h in range(H):
        at = slice(h * T, h * T + T)
        s = qv[at] @ kv[at].T * scale
        if causal:
            s = np.where(rows[None, :] <= rows[:, None], s, -np.inf)
        lse[at] = s.max(1) + np.log2(np.exp2(s - s.max(1, keepdims=True)).sum(1))
        # The second product takes rounded weights, relative to the running maximum.
        top, acc, total = np.full((T, 1), -np.inf), np.zeros((T, D)), np.zeros((T, 1))
        for j in range(0, T, bn):
            t = s[:, j:j + bn]
            new_top = np.maximum(top, t.max(1, keepdims=True))
            p = np.exp2(t - new_top)
            alpha = np.exp2(top - new_top)
            total = total * alpha + p.sum(1, keepdims=True)
            if kind == "e4m3":
                p = F.decode(F.encode(p, F.E4M3), F.E4M3)
            acc, top = acc * alpha + p @ vv[at][j:j + bn], new_top
        out[at] = acc / total
    c = new((cdiv(T, bm), H))
    if "_tma_" in name:
        for n, x in (("q", q), ("k", k), ("v", v)):
            c.tensor(n, x)
        start = np.full((H * T, D), 0x7FFF, np.uint16)
        if kind == "f16":
            c.tensor("o", start.view(np.float16), out.astype(np.float32), rel=2e-3)
        else:
            c.tensor("o", start, out, bf16=True, rel=6e-3)
    else:
        for n, x in (("q", q), ("k", k), ("v", v)):
            c.inp(n, x)
        if kind == "f16":
            c.out("o", out.astype(np.float16), rel=2e-3)
        else:
            c.out("o", out, bf16=True, rel=6e-3)
        c.out("lse", lse.astype(np.float32), rel=1e-5)
    c.i32(T)
    c.f32(scale)
    c.close()
