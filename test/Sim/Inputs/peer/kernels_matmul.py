"""Matrix products for generate.py: element types, tile shapes, TMA, roles, scales."""
import triton
import triton.language as tl


@triton.jit
def mm_pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TA: tl.constexpr,
                TB: tl.constexpr, ACC: tl.constexpr):
    """C[M, N] = A B through pointers with masks on every edge; TA and TB: A is [K, M], B is [N, K]."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), ACC)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        if TA:
            x = tl.trans(tl.load(a + k[:, None] * M + row[None, :], (k[:, None] < K) & (row[None, :] < M), 0.0))
        else:
            x = tl.load(a + row[:, None] * K + k[None, :], (row[:, None] < M) & (k[None, :] < K), 0.0)
        if TB:
            y = tl.trans(tl.load(b + col[:, None] * K + k[None, :], (col[:, None] < N) & (k[None, :] < K), 0.0))
        else:
            y = tl.load(b + k[:, None] * N + col[None, :], (k[:, None] < K) & (col[None, :] < N), 0.0)
        acc = tl.dot(x, y, acc, out_dtype=ACC)
    tl.store(c + row[:, None] * N + col[None, :], acc.to(c.dtype.element_ty), (row[:, None] < M) & (col[None, :] < N))


@triton.jit
def mm_epilogue(a, b, bias, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = gelu(A B^T + bias), gelu by the exponential form of tanh; bf16 in and out."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + row[:, None] * K + k[None, :])
        y = tl.load(b + col[:, None] * K + k[None, :])
        acc = tl.dot(x, tl.trans(y), acc)
    v = acc + tl.load(bias + col)[None, :]
    u = 0.7978845608 * (v + 0.044715 * v * v * v)
    g = v / (1.0 + tl.exp(-2.0 * u))
    tl.store(c + row[:, None] * N + col[None, :], g.to(tl.bfloat16))


@triton.jit
def mm_softmax(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Row softmax of A B^T in one tile of columns."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + row[:, None] * K + k[None, :])
        y = tl.load(b + col[:, None] * K + k[None, :])
        acc = tl.dot(x, tl.trans(y), acc)
    acc = acc - tl.max(acc, 1)[:, None]
    e = tl.exp2(acc * 1.4426950408889634)
    e = e / tl.sum(e, 1)[:, None]
    tl.store(c + row[:, None] * BN + col[None, :], e)


@triton.jit
def mm_tma(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TB: tl.constexpr):
    """C = A B (TB: A B^T), every operand through a tensor map, the result by a TMA store."""
    r = tl.program_id(0) * BM
    s = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = a.load([r, k])
        if TB:
            y = b.load([s, k]).T
        else:
            y = b.load([k, s])
        acc = tl.dot(x, y, acc)
    c.store([r, s], acc.to(c.dtype))


@triton.jit
def mm_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr,
                  FLATTEN: tl.constexpr):
    """Persistent A B^T: each program walks over tiles; WS: Triton splits the loop over roles."""
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN, warp_specialize=WS):
        r = tile // tiles_n * BM
        s = tile % tiles_n * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([r, k]), b.load([s, k]).T, acc)
        c.store([r, s], acc.to(c.dtype))


@triton.jit
def mm_roles(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A B^T with the K loop split over a load, an MMA and an epilogue role."""
    r = tl.program_id(0) * BM
    s = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        acc = tl.dot(a.load([r, k]), b.load([s, k]).T, acc)
    row = r + tl.arange(0, BM)
    col = s + tl.arange(0, BN)
    tl.store(c + row[:, None] * N + col[None, :], acc)


@triton.jit
def mm_scaled(a, sa, b, sb, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, VEC: tl.constexpr,
              FA: tl.constexpr, FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr):
    """Block-scaled C = (A, sa) (B, sb)^T; PA and PB elements per byte; K counts elements."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ka = k // PA + tl.arange(0, BK // PA)
        kb = k // PB + tl.arange(0, BK // PB)
        ks = k // VEC + tl.arange(0, BK // VEC)
        x = tl.load(a + row[:, None] * (K // PA) + ka[None, :])
        y = tl.load(b + col[:, None] * (K // PB) + kb[None, :])
        if sa is None:  # an operand of 16 bits has no scales
            sx = None
        else:
            sx = tl.load(sa + row[:, None] * (K // VEC) + ks[None, :])
        sy = tl.load(sb + col[:, None] * (K // VEC) + ks[None, :])
        acc = tl.dot_scaled(x, sx, FA, y.T, sy, FB, acc)
    tl.store(c + row[:, None] * N + col[None, :], acc)


@triton.jit
def mm_scaled_tma(a, sa, b, sb, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, VEC: tl.constexpr,
                  FA: tl.constexpr, FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr):
    """As mm_scaled, operands by TMA, scales stored in the packed order that tcgen05.cp takes."""
    r = tl.program_id(0) * BM
    s = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    RM: tl.constexpr = BM // 128
    RN: tl.constexpr = BN // 128
    RK: tl.constexpr = BK // VEC // 4
    for k in tl.range(0, K, BK):
        x = a.load([r, k // PA])
        y = b.load([s, k // PB])
        q = k // VEC // 4
        sx = sa.load([0, r // 128, q, 0, 0])
        sy = sb.load([0, s // 128, q, 0, 0])
        sx = sx.reshape(RM, RK, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BM, BK // VEC)
        sy = sy.reshape(RN, RK, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BN, BK // VEC)
        acc = tl.dot_scaled(x, sx, FA, y.T, sy, FB, acc)
    row = r + tl.arange(0, BM)
    col = s + tl.arange(0, BN)
    tl.store(c + row[:, None] * N + col[None, :], acc)


def kernels(Kernel):
    pointers = lambda t, o, n="MNK": {"a": "*" + t[0], "b": "*" + t[1], "c": "*" + o, **{k: "i32" for k in n}}
    shape = lambda m, n, k, **rest: dict(BM=m, BN=n, BK=k, **rest)
    desc = lambda t, m, n: f"tensordesc<{t}[{m},{n}]>"
    plain = dict(TA=False, TB=False, ACC=tl.float32)
    scaled = {"a": "*u8", "sa": "*u8", "b": "*u8", "sb": "*u8", "c": "*fp32", "N": "i32", "K": "i32"}
    e4m3, e5m2 = dict(scaled, a="*fp8e4nv", b="*fp8e4nv"), dict(scaled, a="*fp8e5", b="*fp8e4nv")
    out = [
        Kernel("mm_f16_m64_tail", mm_pointers, pointers(("fp16", "fp16"), "fp32"),
               shape(64, 64, 64, **plain), num_stages=2),
        Kernel("mm_f16_mn_major", mm_pointers, pointers(("fp16", "fp16"), "fp32"),
               shape(128, 64, 64, TA=True, TB=False, ACC=tl.float32), ["M", "N", "K"], num_stages=2),
        Kernel("mm_f16_acc16", mm_pointers, pointers(("fp16", "fp16"), "fp16"),
               shape(128, 64, 64, TA=False, TB=True, ACC=tl.float16), ["M", "N", "K"], num_stages=2),
        Kernel("mm_tf32", mm_pointers, pointers(("fp32", "fp32"), "fp32"),
               shape(128, 64, 32, TA=False, TB=True, ACC=tl.float32), ["M", "N", "K"], num_stages=2),
        Kernel("mm_e4m3_e5m2_n256", mm_pointers, pointers(("fp8e4nv", "fp8e5"), "fp32"),
               shape(128, 256, 64, TA=False, TB=True, ACC=tl.float32), ["M", "N", "K"], num_stages=2, num_warps=8),
        Kernel("mm_e5m2_mn_major", mm_pointers, pointers(("fp8e5", "fp8e5"), "fp32"),
               shape(128, 64, 64, TA=False, TB=False, ACC=tl.float32), ["M", "N", "K"], num_stages=2),
        Kernel("mm_small_f16", mm_pointers, pointers(("fp16", "fp16"), "fp32"),
               shape(16, 16, 32, **plain), ["M", "N", "K"], num_stages=2, num_warps=1),
        Kernel("mm_small_bf16", mm_pointers, pointers(("bf16", "bf16"), "bf16"),
               shape(32, 32, 32, TA=False, TB=True, ACC=tl.float32), ["M", "N", "K"], num_stages=2, num_warps=4),
        Kernel("mm_small_e4m3", mm_pointers, pointers(("fp8e4nv", "fp8e4nv"), "fp32"),
               shape(16, 32, 64, TA=False, TB=True, ACC=tl.float32), ["M", "N", "K"], num_stages=2, num_warps=1),
        Kernel("mm_small_s8", mm_pointers, pointers(("i8", "i8"), "i32"),
               shape(32, 32, 64, TA=False, TB=True, ACC=tl.int32), ["M", "N", "K"], num_stages=2, num_warps=2),
        Kernel("mm_bf16_gelu", mm_epilogue, dict(pointers(("bf16", "bf16"), "bf16", "NK"), bias="*fp32"),
               shape(128, 64, 64), ["N", "K"], num_stages=3),
        Kernel("mm_f16_softmax", mm_softmax, pointers(("fp16", "fp16"), "fp32", "K"),
               shape(64, 64, 64), ["K"], num_stages=2),
        Kernel("mm_tma_bf16", mm_tma, dict(a=desc("bf16", 128, 64), b=desc("bf16", 64, 64), c=desc("bf16", 128, 64), K="i32"),
               shape(128, 64, 64, TB=False), ["K"], num_stages=3),
        Kernel("mm_tma_f16_late_wait", mm_tma, dict(a=desc("fp16", 128, 64), b=desc("fp16", 64, 64), c=desc("fp16", 128, 64), K="i32"),
               shape(128, 64, 64, TB=True), ["K"], num_stages=2, raw=True),
        Kernel("mm_tma_tf32_m64", mm_tma, dict(a=desc("fp32", 64, 32), b=desc("fp32", 64, 32), c=desc("fp32", 64, 64), K="i32"),
               shape(64, 64, 32, TB=True), ["K"], num_stages=2),
        Kernel("mm_tma_e4m3", mm_tma, dict(a=desc("fp8e4nv", 128, 64), b=desc("fp8e4nv", 64, 64), c=desc("fp16", 128, 64), K="i32"),
               shape(128, 64, 64, TB=True), ["K"], num_stages=3),
        Kernel("mm_tma_cluster2", mm_tma, dict(a=desc("fp16", 256, 64), b=desc("fp16", 128, 64), c=desc("fp16", 256, 128), K="i32"),
               shape(256, 128, 64, TB=True), ["K"], num_stages=2, num_ctas=2),
        Kernel("mm_persistent", mm_persistent,
               dict(a=desc("fp16", 128, 64), b=desc("fp16", 64, 64), c=desc("fp16", 128, 64), M="i32", N="i32", K="i32"),
               shape(128, 64, 64, WS=False, FLATTEN=True), ["K"], num_stages=2),
        Kernel("mm_persistent_ws", mm_persistent,
               dict(a=desc("fp16", 128, 64), b=desc("fp16", 64, 64), c=desc("fp16", 128, 64), M="i32", N="i32", K="i32"),
               shape(128, 64, 64, WS=True, FLATTEN=False), ["K"], num_stages=2),
        Kernel("mm_roles_sm103", mm_roles, dict(a=desc("bf16", 128, 64), b=desc("bf16", 64, 64), c="*fp32", N="i32", K="i32"),
               shape(128, 64, 64), ["N", "K"], num_stages=3, arch=103),
        Kernel("mm_mxfp8", mm_scaled, e4m3, shape(128, 64, 128, VEC=32, FA="e4m3", FB="e4m3", PA=1, PB=1),
               ["N", "K"], num_stages=2),
        Kernel("mm_mxfp8_e5m2_fp4", mm_scaled, dict(e5m2, b="*u8"),
               shape(128, 64, 128, VEC=32, FA="e5m2", FB="e2m1", PA=1, PB=2), ["N", "K"], num_stages=2),
        Kernel("mm_mxfp4", mm_scaled, scaled, shape(128, 64, 128, VEC=32, FA="e2m1", FB="e2m1", PA=2, PB=2),
               ["N", "K"], num_stages=2),
        Kernel("mm_nvfp4", mm_scaled, dict(scaled, sa="*fp8e4nv", sb="*fp8e4nv"),
               shape(128, 64, 128, VEC=16, FA="e2m1", FB="e2m1", PA=2, PB=2), ["N", "K"], num_stages=2),
        Kernel("mm_nvfp4_sm103", mm_scaled, dict(scaled, sa="*fp8e4nv", sb="*fp8e4nv"),
               shape(128, 128, 256, VEC=16, FA="e2m1", FB="e2m1", PA=2, PB=2), ["N", "K"], num_stages=2, arch=103),
        Kernel("mm_bf16_mxfp4", mm_scaled, dict(scaled, a="*bf16"),
               shape(128, 64, 64, sa=None, VEC=32, FA="bf16", FB="e2m1", PA=1, PB=2), ["N", "K"], num_stages=2),
    ]
    scale = lambda rows, cols: f"tensordesc<u8[1,{rows},{cols},2,256]>"
    out += [
        Kernel("mm_mxfp8_tma", mm_scaled_tma,
               dict(a=desc("fp8e4nv", 128, 128), b=desc("fp8e4nv", 128, 128), sa=scale(1, 1), sb=scale(1, 1), c="*fp32", N="i32", K="i32"),
               shape(128, 128, 128, VEC=32, FA="e4m3", FB="e4m3", PA=1, PB=1), ["N", "K"], num_stages=2),
        Kernel("mm_nvfp4_tma", mm_scaled_tma,
               dict(a=desc("u8", 128, 128), b=desc("u8", 128, 128), sa=scale(1, 4).replace("u8", "fp8e4nv"),
                    sb=scale(1, 4).replace("u8", "fp8e4nv"), c="*fp32", N="i32", K="i32"),
               shape(128, 128, 256, VEC=16, FA="e2m1", FB="e2m1", PA=2, PB=2), ["N", "K"], num_stages=2),
    ]
    return out
