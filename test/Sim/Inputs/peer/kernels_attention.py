"""Attention forward for generate.py: online softmax, two products per key tile."""
import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, o, lse, T, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
              WS: tl.constexpr):
    """O = softmax(scale Q K^T) V of one head of [H T, D]; scale includes log2(e); lse in base 2.

    The last query and key tile may be partly beyond T: keys there are masked,
    rows there are not written.
    """
    head = tl.program_id(1)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = head * T
    x = tl.load(q + (base + row[:, None]) * D + d[None, :], row[:, None] < T, 0.0)
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    last = T
    if CAUSAL:
        last = tl.minimum(T, (tl.program_id(0) + 1) * BM)
    for j in tl.range(0, last, BN, warp_specialize=WS):
        col = j + tl.arange(0, BN)
        y = tl.load(k + (base + col[:, None]) * D + d[None, :], col[:, None] < T, 0.0)
        s = tl.dot(x, y.T) * scale
        keep = col[None, :] < T
        if CAUSAL:
            keep = keep & (col[None, :] <= row[:, None])
        s = tl.where(keep, s, float("-inf"))
        mn = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - mn[:, None])
        alpha = tl.exp2(m - mn)
        l = l * alpha + tl.sum(p, 1)
        z = tl.load(v + (base + col[:, None]) * D + d[None, :], col[:, None] < T, 0.0)
        acc = tl.dot(p.to(z.dtype), z, acc * alpha[:, None])
        m = mn
    tl.store(o + (base + row[:, None]) * D + d[None, :], (acc / l[:, None]).to(o.dtype.element_ty), row[:, None] < T)
    tl.store(lse + base + row, m + tl.log2(l), row < T)


@triton.jit
def attention_tma(q, k, v, o, T, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
                  WS: tl.constexpr):
    """As attention, with tensor maps over [H T, D] and T a multiple of the tile."""
    base = tl.program_id(1) * T
    first = tl.program_id(0) * BM
    row = first + tl.arange(0, BM)
    x = q.load([base + first, 0])
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    last = T
    if CAUSAL:
        last = first + BM
    for j in tl.range(0, last, BN, warp_specialize=WS):
        s = tl.dot(x, k.load([base + j, 0]).T) * scale
        if CAUSAL:
            s = tl.where((j + tl.arange(0, BN))[None, :] <= row[:, None], s, float("-inf"))
        mn = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - mn[:, None])
        alpha = tl.exp2(m - mn)
        l = l * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v.load([base + j, 0]), acc * alpha[:, None])
        m = mn
    o.store([base + first, 0], (acc / l[:, None]).to(o.dtype))


def kernels(Kernel):
    desc = lambda t, m, n: f"tensordesc<{t}[{m},{n}]>"
    pointers = {"q": "*bf16", "k": "*bf16", "v": "*bf16", "o": "*bf16", "lse": "*fp32", "T": "i32", "scale": "fp32"}
    maps = lambda t, m, n, d: {"q": desc(t, m, d), "k": desc(t, n, d), "v": desc(t, n, d), "o": desc(t, m, d),
                               "T": "i32", "scale": "fp32"}
    shape = lambda m, n, d, **rest: dict(BM=m, BN=n, D=d, **rest)
    return [
        Kernel("attn_ragged_d64", attention, pointers, shape(128, 64, 64, CAUSAL=False, WS=False), num_stages=2, num_warps=8),
        Kernel("attn_causal_ragged_d64", attention, dict(pointers, q="*fp16", k="*fp16", v="*fp16", o="*fp16"),
               shape(64, 64, 64, CAUSAL=True, WS=False), num_stages=2),
        Kernel("attn_tma_causal_d128", attention_tma, maps("bf16", 128, 64, 128),
               shape(128, 64, 128, CAUSAL=True, WS=False), ["T"], num_stages=2, num_warps=8),
        Kernel("attn_tma_ws_d64", attention_tma, maps("fp16", 128, 64, 64),
               shape(128, 64, 64, CAUSAL=False, WS=True), ["T"], num_stages=2),
        Kernel("attn_tma_ws_causal_d128", attention_tma, maps("bf16", 128, 128, 128),
               shape(128, 128, 128, CAUSAL=True, WS=True), ["T"], num_stages=2, num_warps=8, arch=103),
        Kernel("attn_tma_e4m3_d64", attention_tma, dict(maps("fp8e4nv", 128, 64, 64), o=desc("bf16", 128, 64)),
               shape(128, 64, 64, CAUSAL=False, WS=False), ["T"], num_stages=2),
    ]
