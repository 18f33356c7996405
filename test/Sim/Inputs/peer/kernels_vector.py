"""Kernels without matrix products for generate.py: conversions, reductions, scans, integers, atomics."""
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from triton.language.extra import libdevice


@triton.jit
def convert(x, h, b, e4, e5, fromh, fromb, N, BLOCK: tl.constexpr):
    """fp32 to fp16, bf16, e4m3, e5m2; e4m3 and e5m2 back to fp16 and bf16."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < N
    v = tl.load(x + i, keep)
    tl.store(h + i, v.to(tl.float16), keep)
    tl.store(b + i, v.to(tl.bfloat16), keep)
    f4 = v.to(tl.float8e4nv)
    f5 = v.to(tl.float8e5)
    tl.store(e4 + i, f4, keep)
    tl.store(e5 + i, f5, keep)
    tl.store(fromh + i, f4.to(tl.float16) + f5.to(tl.float16), keep)
    tl.store(fromb + i, f4.to(tl.bfloat16) - f5.to(tl.bfloat16), keep)


@triton.jit
def convert_small(h, b, e4h, e5h, e4b, e5b, e5z, N, BLOCK: tl.constexpr):
    """fp16 and bf16 to fp8; BLOCK is one warp's worth, so rounding to zero is exercised too."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(h + i, i < N)
    y = tl.load(b + i, i < N)
    tl.store(e4h + i, x.to(tl.float8e4nv), i < N)
    tl.store(e5h + i, x.to(tl.float8e5), i < N)
    tl.store(e4b + i, y.to(tl.float8e4nv), i < N)
    tl.store(e5b + i, y.to(tl.float8e5), i < N)
    tl.store(e5z + i, x.to(tl.float32).to(tl.bfloat16, fp_downcast_rounding="rtz"), i < N)


@triton.jit
def convert_int(x, n, s8, u8, s16, s32, u32, s64, fs, fu, fl, fh, N, BLOCK: tl.constexpr):
    """Floats to integers of all widths (toward zero) and integers to floats."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < N
    v = tl.load(x + i, keep)
    tl.store(s8 + i, v.to(tl.int8), keep)
    tl.store(u8 + i, tl.abs(v).to(tl.uint8), keep)
    tl.store(s16 + i, (v * 100).to(tl.int16), keep)
    tl.store(s32 + i, (v * 1e6).to(tl.int32), keep)
    tl.store(u32 + i, (tl.abs(v) * 1e7).to(tl.uint32), keep)
    tl.store(s64 + i, (v * 1e12).to(tl.int64), keep)
    w = tl.load(n + i, keep)
    tl.store(fs + i, w.to(tl.float32), keep)
    tl.store(fu + i, w.to(tl.uint32, bitcast=True).to(tl.float32), keep)
    tl.store(fl + i, (w.to(tl.int64) * 1000003).to(tl.float64), keep)
    tl.store(fh + i, (w % 2048).to(tl.float16) + (w % 128).to(tl.int8).to(tl.float16), keep)


@triton.jit
def integers(a, b, quotient, remainder, uq, ur, high, bits, shifts, wide, count, N, BLOCK: tl.constexpr):
    """Integer arithmetic: division, high products, bit operations, shifts, 64 bits, bit counts."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < N
    x = tl.load(a + i, keep, 1)
    y = tl.load(b + i, keep, 1)
    tl.store(quotient + i, x // y, keep)
    tl.store(remainder + i, x % y, keep)
    ux = x.to(tl.uint32, bitcast=True)
    uy = y.to(tl.uint32, bitcast=True)
    tl.store(uq + i, ux // uy, keep)
    tl.store(ur + i, ux % uy, keep)
    tl.store(high + i, tl.umulhi(ux, uy), keep)
    tl.store(bits + i, ((x & y) ^ (x | ~y)) + (x ^ (y << 3)), keep)
    s = y & 31
    tl.store(shifts + i, (x << s) ^ (x >> s) ^ (ux >> s).to(tl.int32, bitcast=True), keep)
    w = x.to(tl.int64) * y + (x.to(tl.int64) << 33)
    w = tl.where(w < 0, w // 7, w % 1000000007) - (w >> 5)
    tl.store(wide + i, w, keep)
    c = libdevice.popc(x) + 64 * libdevice.clz(x) + 4096 * libdevice.ffs(y)
    tl.store(count + i, c ^ libdevice.brev(x), keep)


@triton.jit
def mathematics(x, out, N, BLOCK: tl.constexpr):
    """One row of `out` per function of x in (0, 4)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < N
    v = tl.load(x + i, keep, 1.0)
    tl.store(out + 0 * N + i, tl.exp(v), keep)
    tl.store(out + 1 * N + i, tl.exp2(v), keep)
    tl.store(out + 2 * N + i, tl.log(v), keep)
    tl.store(out + 3 * N + i, tl.log2(v), keep)
    tl.store(out + 4 * N + i, tl.sqrt(v), keep)
    tl.store(out + 5 * N + i, tl.rsqrt(v), keep)
    big = v * v * v * v * 1000.0  # beyond 105615 the argument is reduced through a table in local memory
    tl.store(out + 6 * N + i, tl.sin(big), keep)
    tl.store(out + 7 * N + i, tl.cos(v), keep)
    tl.store(out + 8 * N + i, tl.erf(v), keep)
    tl.store(out + 9 * N + i, libdevice.tanh(v), keep)
    tl.store(out + 10 * N + i, tl.floor(v) + 10 * tl.ceil(v), keep)
    tl.store(out + 11 * N + i, tl.fma(v, v, -1.5) / v, keep)
    tl.store(out + 12 * N + i, tl.div_rn(1.0, v) + tl.sqrt_rn(v), keep)
    tl.store(out + 13 * N + i, libdevice.rint(v * 3.7) + libdevice.trunc(v), keep)
    tl.store(out + 14 * N + i, libdevice.pow(v, 1.7), keep)
    tl.store(out + 15 * N + i, tl.clamp(v, 0.5, 2.5) + tl.minimum(v, 1.0) + tl.maximum(v, 3.0) + tl.abs(v - 2.0), keep)


@triton.jit
def half_math(x, y, oh, ob, N, BLOCK: tl.constexpr):
    """fp16 and bf16 arithmetic in their own precision."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, i < N)
    b = tl.load(y + i, i < N)
    tl.store(oh + i, a * a + tl.maximum(a, -a) - tl.minimum(a, 0.25), i < N)
    tl.store(ob + i, b * b - tl.maximum(b, 0.5), i < N)


@triton.jit
def double_math(x, out, N, BLOCK: tl.constexpr):
    """fp64: arithmetic, division, square root, comparison, rounding to fp32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < N, 1.0)
    w = (v * v + 3.0) / (tl.sqrt(v + 2.0) - 0.5)
    w = tl.where(w > 4.0, w - v, w + v.to(tl.float32).to(tl.float64))
    tl.store(out + i, w, i < N)


@triton.jit
def row_softmax(x, y, lse, N, BLOCK: tl.constexpr):
    """Softmax and logsumexp of one row of any length <= BLOCK."""
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * N + i, i < N, float("-inf")).to(tl.float32)
    m = tl.max(v, 0)
    e = tl.exp(v - m)
    s = tl.sum(e, 0)
    tl.store(y + r * N + i, (e / s).to(tl.bfloat16), i < N)
    tl.store(lse + r, m + tl.log(s))


@triton.jit
def layer_norm(x, gain, bias, y, mean, rstd, M, N, BR: tl.constexpr, BLOCK: tl.constexpr):
    """Layer norm of BR rows per program, fp16 in and out."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    i = tl.arange(0, BLOCK)
    keep = (r[:, None] < M) & (i[None, :] < N)
    v = tl.load(x + r[:, None] * N + i[None, :], keep, 0.0).to(tl.float32)
    mu = tl.sum(v, 1) / N
    d = tl.where(keep, v - mu[:, None], 0.0)
    rs = 1.0 / tl.sqrt(tl.sum(d * d, 1) / N + 1e-5)
    g = tl.load(gain + i, i < N)
    b = tl.load(bias + i, i < N)
    tl.store(y + r[:, None] * N + i[None, :], (d * rs[:, None] * g[None, :] + b[None, :]).to(tl.float16), keep)
    tl.store(mean + r, mu, r < M)
    tl.store(rstd + r, rs, r < M)


@triton.jit
def _last(a, b):
    return tl.where(b != 0, b, a)


@triton.jit
def _affine(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def scans(x, n, csum, csum0, cmax, rsum, filled, affine, R: tl.constexpr, C: tl.constexpr):
    """Prefix sums along both axes, running maximum, reverse sum, custom scans of one and two values."""
    p = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + p)
    k = tl.load(n + p)
    tl.store(csum + p, tl.cumsum(v, 1))
    tl.store(csum0 + p, tl.cumsum(k, 0))
    tl.store(cmax + p, tl.associative_scan(v, 1, tl.standard._elementwise_max))
    tl.store(rsum + p, tl.cumsum(k, 1, reverse=True))
    tl.store(filled + p, tl.associative_scan(k, 1, _last))
    a, b = tl.associative_scan((v * 0.25, v), 1, _affine)
    tl.store(affine + p, b)


@triton.jit
def _welford(m0, s0, n0, m1, s1, n1):
    n = n0 + n1
    d = m1 - m0
    w = n1 / n
    return m0 + d * w, s0 + s1 + d * d * n0 * w, n


@triton.jit
def reductions(x, n, total, top, where_top, where_low, parity, product, mean, spread, bins, R: tl.constexpr,
               C: tl.constexpr):
    """Sum, maximum, arg max and min, xor, minimum of integers, Welford's algorithm, a histogram."""
    r = tl.arange(0, R)
    p = r[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + p)
    k = tl.load(n + p)
    tl.store(total + r, tl.sum(v, 1))
    tl.store(top + tl.arange(0, C), tl.max(v, 0))
    tl.store(where_top + r, tl.argmax(v, 1))
    tl.store(where_low + tl.arange(0, C), tl.argmin(v, 0))
    tl.store(parity + r, tl.xor_sum(k, 1))
    tl.store(product, tl.min(tl.min(k, 1), 0))
    m, s, c = tl.reduce((v, tl.zeros_like(v), tl.full((R, C), 1.0, tl.float32)), 1, _welford)
    tl.store(mean + r, m)
    tl.store(spread + r, s / c)
    h = tl.histogram(tl.reshape(k & 63, (R * C,)), 64)
    tl.store(bins + tl.arange(0, 64), h)


@triton.jit
def sorting(x, y, top, R: tl.constexpr, C: tl.constexpr):
    """Bitonic sort of every row, and the largest 8 of each."""
    p = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + p)
    tl.store(y + p, tl.sort(v, 1))
    q = tl.arange(0, R)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(top + q, tl.topk(v, 8))


@triton.jit
def atomics(x, n, fsum, hsum, isum, low, high, bit_and, bit_or, bit_xor, ticket, slots, wide, N, BLOCK: tl.constexpr):
    """Atomic read-modify-writes on few addresses from many programs."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < N
    v = tl.load(x + i, keep, 0.0)
    k = tl.load(n + i, keep, 0)
    b = i & 15
    tl.atomic_add(fsum + b, v, keep)
    tl.atomic_add(hsum + (i & 31), v.to(tl.float16), keep, sem="relaxed")
    tl.atomic_add(isum + b, k, keep, sem="relaxed", scope="gpu")
    tl.atomic_min(low + b, k, keep)
    tl.atomic_max(high + b, v, keep)
    tl.atomic_and(bit_and + b, k, keep)
    tl.atomic_or(bit_or + b, k, keep)
    tl.atomic_xor(bit_xor + b, k, keep)
    tl.atomic_add(wide + b, k.to(tl.int64) * 65536, keep)
    t = tl.atomic_add(ticket, 1)
    tl.atomic_xchg(slots + tl.program_id(0), tl.where(t < tl.num_programs(0), tl.program_id(0) + 1, -1))


@triton.jit
def spinlock(x, lock, total, N, BLOCK: tl.constexpr):
    """A lock by compare and swap guards a plain read and write of `total`."""
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * N + i, i < N, 0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    old = tl.load(total + i, i < N, 0, volatile=True)
    tl.store(total + i, old + v, i < N)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def shuffles(x, index, gathered, flipped, woven, pairs, turned, picked, R: tl.constexpr, C: tl.constexpr):
    """Gather, flip, interleave, join/split, 3-D permutation, gather through memory with a mask."""
    p = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + p)
    k = tl.load(index + p)
    tl.store(gathered + p, tl.gather(v, k, 1))
    tl.store(flipped + p, tl.flip(v, 1))
    w = tl.interleave(v, v + 1)
    tl.store(woven + tl.arange(0, R)[:, None] * 2 * C + tl.arange(0, 2 * C)[None, :], w)
    e, o = tl.split(tl.reshape(v, (R, C // 2, 2)))
    q = tl.arange(0, R)[:, None] * (C // 2) + tl.arange(0, C // 2)[None, :]
    tl.store(pairs + q, e * 3 - o)
    t = tl.permute(tl.reshape(v, (R, 4, C // 4)), (2, 0, 1))
    u = tl.arange(0, C // 4)[:, None, None] * (4 * R) + tl.arange(0, R)[None, :, None] * 4 + tl.arange(0, 4)[None, None, :]
    tl.store(turned + u, t)
    tl.store(picked + p, tl.where(k % 3 == 0, -1, tl.load(x + tl.arange(0, R)[:, None] * C + k, k % 2 == 0, 7)))


@triton.jit
def transpose(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Y = X^T through shared memory, any element type."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(x + r[:, None] * N + c[None, :], (r[:, None] < M) & (c[None, :] < N))
    tl.store(y + c[:, None] * M + r[None, :], v.T, (c[:, None] < N) & (r[None, :] < M))


@triton.jit
def random_bits(y, f, seed, N, BLOCK: tl.constexpr):
    """Triton's counter-based generator (Philox), as integers and as floats in [0, 1)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(y + i * 4, a, i < N)
    tl.store(y + i * 4 + 1, b, i < N)
    tl.store(y + i * 4 + 2, c, i < N)
    tl.store(y + i * 4 + 3, d, i < N)
    tl.store(f + i, tl.rand(seed, i), i < N)


@triton.jit
def control(x, y, steps, N, BLOCK: tl.constexpr):
    """Data-dependent loops and branches: Collatz steps by lane, a scalar loop by program, early exit."""
    pid = tl.program_id(0)
    if pid * BLOCK >= N:
        return
    i = pid * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < N, 1)
    n = tl.zeros((BLOCK,), tl.int32)
    while tl.max(v, 0) > 1:
        odd = v % 2 == 1
        n += tl.where(v > 1, 1, 0)
        v = tl.where(v > 1, tl.where(odd, 3 * v + 1, v // 2), v)
    tl.store(y + i, n, i < N)
    a = pid + 1
    b = 0
    while a < 1000:
        if a % 3 == 0:
            a = a * 2 + 1
        else:
            a = a + 7
        b += 1
    tl.store(steps + pid, b)


@triton.jit
def tma_copy(x, y, z, M: tl.constexpr, N: tl.constexpr):
    """A tile at an odd place through tensor maps with a ragged edge: scaled store, then atomic add."""
    r = tl.program_id(0) * M - 8
    v = x.load([r, 16])
    y.store([tl.program_id(0) * M, 0], v * 2)
    z.atomic_add([0, 0], v)


@triton.jit
def tma_device_map(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Tensor maps that the kernel builds itself in global scratch memory."""
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BM, BN])
    v = source.load([tl.program_id(0) * BM, tl.program_id(1) * BN])
    target.store([tl.program_id(0) * BM, tl.program_id(1) * BN], v + 1)


@triton.jit
def tma_rows(x, index, y, B: tl.constexpr, C: tl.constexpr):
    """Rows gathered by TMA gather4 and scattered by scatter4."""
    k = tl.load(index + tl.arange(0, B))
    v = x.gather(k, 0)
    y.scatter(v + 1, B - 1 - tl.arange(0, B), 0)


@triton.jit
def dependent(x, y, N, BLOCK: tl.constexpr):
    """Programmatic dependent launch: wait for the grid before, release the grid after."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gdc_wait()
    v = tl.load(x + i, i < N)
    gdc_launch_dependents()
    tl.store(y + i, v + v, i < N)


def kernels(Kernel):
    p = lambda names, types: dict(zip(names.split(), ["*" + t for t in types.split()]))
    n = {"N": "i32"}
    block = dict(BLOCK=256)
    grid = lambda r, c: dict(R=r, C=c)
    desc = lambda t, m, k: f"tensordesc<{t}[{m},{k}]>"
    return [
        Kernel("convert_f32", convert, p("x h b e4 e5 fromh fromb", "fp32 fp16 bf16 fp8e4nv fp8e5 fp16 bf16") | n, dict(BLOCK=512)),
        Kernel("convert_half", convert_small, p("h b e4h e5h e4b e5b e5z", "fp16 bf16 fp8e4nv fp8e5 fp8e4nv fp8e5 bf16") | n, block, num_warps=1),
        Kernel("convert_int", convert_int,
               p("x n s8 u8 s16 s32 u32 s64 fs fu fl fh", "fp32 i32 i8 u8 i16 i32 u32 i64 fp32 fp32 fp64 fp16") | n, block),
        Kernel("integers", integers,
               p("a b quotient remainder uq ur high bits shifts wide count", "i32 i32 i32 i32 u32 u32 u32 i32 i32 i64 i32") | n, block),
        Kernel("mathematics", mathematics, p("x out", "fp32 fp32") | n, dict(BLOCK=128), num_warps=4),
        Kernel("half_math", half_math, p("x y oh ob", "fp16 bf16 fp16 bf16") | n, block),
        Kernel("double_math", double_math, p("x out", "fp64 fp64") | n, dict(BLOCK=128)),
        Kernel("row_softmax", row_softmax, p("x y lse", "fp32 bf16 fp32") | n, dict(BLOCK=1024)),
        Kernel("layer_norm", layer_norm, p("x gain bias y mean rstd", "fp16 fp32 fp32 fp16 fp32 fp32") | {"M": "i32", "N": "i32"},
               dict(BR=4, BLOCK=256)),
        Kernel("scans", scans, p("x n csum csum0 cmax rsum filled affine", "fp32 i32 fp32 i32 fp32 i32 i32 fp32"), grid(16, 64)),
        Kernel("reductions", reductions,
               p("x n total top where_top where_low parity product mean spread bins",
                 "fp32 i32 fp32 fp32 i32 i32 i32 i32 fp32 fp32 i32"), grid(16, 64)),
        Kernel("sorting", sorting, p("x y top", "fp32 fp32 fp32"), grid(4, 64)),
        Kernel("atomics", atomics,
               p("x n fsum hsum isum low high bit_and bit_or bit_xor ticket slots wide",
                 "fp32 i32 fp32 fp16 i32 i32 fp32 i32 i32 i32 i32 i32 i64") | n, block),
        Kernel("spinlock", spinlock, p("x lock total", "i32 i32 i32") | n, dict(BLOCK=128)),
        Kernel("shuffles", shuffles, p("x index gathered flipped woven pairs turned picked", "i32 i32 i32 i32 i32 i32 i32 i32"), grid(8, 64)),
        Kernel("transpose_f16", transpose, p("x y", "fp16 fp16") | {"M": "i32", "N": "i32"}, dict(BM=64, BN=64), ["M", "N"]),
        Kernel("transpose_u8", transpose, p("x y", "u8 u8") | {"M": "i32", "N": "i32"}, dict(BM=32, BN=64)),
        Kernel("random_bits", random_bits, p("y f", "i32 fp32") | {"seed": "i32", "N": "i32"}, block),
        Kernel("control", control, p("x y steps", "i32 i32 i32") | n, dict(BLOCK=128)),
        Kernel("tma_copy", tma_copy, dict(x=desc("fp32", 32, 32), y=desc("fp32", 32, 32), z=desc("fp32", 32, 32)), dict(M=32, N=32)),
        Kernel("tma_device_map", tma_device_map, p("x y", "fp16 fp16") | {"M": "i32", "N": "i32"}, dict(BM=32, BN=64), ["M", "N"]),
        Kernel("tma_rows", tma_rows, dict(x=desc("fp16", 1, 64), index="*i32", y=desc("fp16", 1, 64)), dict(B=32, C=64)),
        Kernel("dependent", dependent, p("x y", "fp32 fp32") | n, block, launch_pdl=True),
    ]
