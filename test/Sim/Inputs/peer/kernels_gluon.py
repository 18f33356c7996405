"""Kernels in Gluon, Triton's explicit dialect: own barriers, roles, tensor memory, CTA pairs."""
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell as bw
from triton.experimental.gluon.language.nvidia.blackwell import (TensorMemoryLayout, TensorMemoryScalesLayout,
                                                                 allocate_tensor_memory, clc, fence_async_shared,
                                                                 mbarrier, tcgen05_commit, tcgen05_copy, tcgen05_mma,
                                                                 tcgen05_mma_scaled, tma)
from triton.experimental.gluon.language.nvidia.ampere import async_copy


@gluon.jit
def gl_mma_tmem(a, b, c, K, N, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, VARIANT: gl.constexpr,
                WARPS: gl.constexpr):
    """A B^T with A copied into tensor memory through registers; read back with one shape of tcgen05.ld."""
    ready = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(ready, count=1)
    mbarrier.init(done, count=1)
    xs = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    ys = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    xt = allocate_tensor_memory(a.dtype, [BM, BK], TensorMemoryLayout([BM, BK], col_stride=1))
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    row = gl.program_id(0) * BM
    col = gl.program_id(1) * BN
    phase = 0
    use = False
    for k in range(0, K, BK):
        mbarrier.expect(ready, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, k], ready, xs)
        tma.async_load(b, [col, k], ready, ys)
        mbarrier.wait(ready, phase)
        xt.store(xs.load(xt.get_reg_layout()))
        tcgen05_mma(xt, ys.permute((1, 0)), acc, use_acc=use)
        tcgen05_commit(done)
        mbarrier.wait(done, phase)
        phase ^= 1
        use = True
    mbarrier.invalidate(ready)
    mbarrier.invalidate(done)
    v = acc.load(acc.get_reg_layout(instr_variant=VARIANT))
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [WARPS, 1], [1, 0])
    v = gl.convert_layout(v, layout)
    r = row + gl.arange(0, BM, gl.SliceLayout(1, layout))
    s = col + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(c + r[:, None] * N + s[None, :], v)


@gluon.jit
def gl_store_shapes(x, y, BM: gl.constexpr, BN: gl.constexpr, ST: gl.constexpr, LD: gl.constexpr, STRIDE: gl.constexpr):
    """A tile through tensor memory: written with one shape of tcgen05.st, read with another of ld."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    r = gl.arange(0, BM, gl.SliceLayout(1, layout))
    s = gl.arange(0, BN, gl.SliceLayout(0, layout))
    p = r[:, None] * BN + s[None, :]
    t = allocate_tensor_memory(x.dtype.element_ty, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=STRIDE))
    t.store(gl.convert_layout(gl.load(x + p), t.get_reg_layout(instr_variant=ST)))
    v = t.load(t.get_reg_layout(instr_variant=LD))
    gl.store(y + p, gl.convert_layout(v, layout))


@gluon.jit
def gl_copy_shapes(x, y, BM: gl.constexpr, BN: gl.constexpr):
    """tcgen05.cp of an fp32 tile from swizzled shared memory to 128 lanes of tensor memory."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    r = gl.arange(0, BM, gl.SliceLayout(1, layout))
    s = gl.arange(0, BN, gl.SliceLayout(0, layout))
    p = r[:, None] * BN + s[None, :]
    smem = gl.allocate_shared_memory(gl.float32, [BM, BN], shared, gl.load(x + p))
    t = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared()
    tcgen05_copy(smem, t)
    tcgen05_commit(bar)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    gl.store(y + p, gl.convert_layout(t.load(), layout))


@gluon.jit
def gl_pair(a, b, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """A B^T by a pair of CTAs: M and N split over the pair, cta_group::2, TMA stores of both halves."""
    split: gl.constexpr = [[BM // 2, 0]]
    ready = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(ready, count=1)
    mbarrier.init(done, count=1)
    xs = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    ys = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    acc = allocate_tensor_memory(gl.float32, [BM, BN],
                                 TensorMemoryLayout([BM // 2, BN], col_stride=1, cga_layout=[[1, 0]], two_ctas=True))
    row = gl.program_id(0) * BM
    phase = 0
    use = False
    for k in range(0, K, BK):
        mbarrier.expect(ready, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, k], ready, xs)
        tma.async_load(b, [0, k], ready, ys)
        mbarrier.wait(ready, phase)
        tcgen05_mma(xs, ys.permute((1, 0)), acc, use_acc=use, mbarriers=[done])
        mbarrier.wait(done, phase)
        phase ^= 1
        use = True
    mbarrier.invalidate(ready)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    out.store(acc.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, 0], out)
    tma.store_wait(0)


@gluon.jit
def gl_pair_scaled(a, sa, b, sb, c, K, N, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, FA: gl.constexpr,
                   FB: gl.constexpr):
    """Block-scaled A B^T by a pair of CTAs: each holds half of A, of B and of A's scales, and all of B's scales."""
    ready = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(ready, count=1)
    mbarrier.init(done, count=1)
    xs = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    ys = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    us = gl.allocate_shared_memory(sa.dtype, sa.block_type.shape, sa.layout)
    vs = gl.allocate_shared_memory(sb.dtype, sb.block_type.shape, sb.layout)
    ut = allocate_tensor_memory(gl.uint8, [BM, BK // 32], TensorMemoryScalesLayout(cga_layout=[[1, 0]]))
    vt = allocate_tensor_memory(gl.uint8, [BN, BK // 32], TensorMemoryScalesLayout(cga_layout=[[0, 0]]))
    acc = allocate_tensor_memory(gl.float32, [BM, BN],
                                 TensorMemoryLayout([BM // 2, BN], col_stride=1, cga_layout=[[1, 0]], two_ctas=True))
    row = gl.program_id(0)
    phase = 0
    use = False
    for k in range(0, K, BK):
        mbarrier.expect(ready, a.nbytes_per_cta + b.nbytes_per_cta + sa.nbytes_per_cta + sb.nbytes_per_cta)
        tma.async_load(a, [row * BM, k], ready, xs)
        tma.async_load(b, [0, k], ready, ys)
        tma.async_load(sa, [0, row * (BM // 128), k // 128, 0, 0], ready, us)
        tma.async_load(sb, [0, 0, k // 128, 0, 0], ready, vs)
        mbarrier.wait(ready, phase)
        tcgen05_copy(us.reshape((BM // 128, BK // 128, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((BM, BK // 32)), ut)
        tcgen05_copy(vs.reshape((BN // 128, BK // 128, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((BN, BK // 32)), vt)
        tcgen05_mma_scaled(xs, ys.permute((1, 0)), acc, ut, vt, FA, FB, use_acc=use, mbarriers=[done])
        mbarrier.wait(done, phase)
        phase ^= 1
        use = True
    mbarrier.invalidate(ready)
    mbarrier.invalidate(done)
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0], cga_layout=[[1, 0]])
    v = gl.convert_layout(acc.load(), layout)
    r = row * BM + gl.arange(0, BM, gl.SliceLayout(1, layout))
    s = gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(c + r[:, None] * N + s[None, :], v)


@gluon.jit
def _produce(a, b, xs, ys, full, empty, tiles, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
             STAGES: gl.constexpr):
    n = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for k in range(0, K, BK):
            i = n % STAGES
            mbarrier.wait(empty.index(i), ((n // STAGES) & 1) ^ 1)
            mbarrier.expect(full.index(i), a.nbytes_per_cta + b.nbytes_per_cta)
            tma.async_load(a, [tile * BM, k], full.index(i), xs.index(i))
            tma.async_load(b, [0, k], full.index(i), ys.index(i))
            n += 1


@gluon.jit
def _multiply(xs, ys, acc, full, empty, filled, drained, tiles, K, BK: gl.constexpr, STAGES: gl.constexpr):
    n = 0
    t = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        j = t & 1
        mbarrier.wait(drained.index(j), ((t >> 1) & 1) ^ 1)
        use = False
        for k in range(0, K, BK):
            i = n % STAGES
            mbarrier.wait(full.index(i), (n // STAGES) & 1)
            tcgen05_mma(xs.index(i), ys.index(i).permute((1, 0)), acc.index(j), use_acc=use,
                        mbarriers=[empty.index(i)])
            use = True
            n += 1
        tcgen05_commit(filled.index(j))
        t += 1


@gluon.jit
def _drain(c, acc, filled, drained, tiles, BM: gl.constexpr, BN: gl.constexpr):
    t = 0
    out = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        j = t & 1
        mbarrier.wait(filled.index(j), (t >> 1) & 1)
        v = acc.index(j).load()
        mbarrier.arrive(drained.index(j), count=1)
        tma.store_wait(0)
        out.store(v.to(c.dtype))
        fence_async_shared()
        tma.async_store(c, [tile * BM, 0], out)
        t += 1
    tma.store_wait(0)


@gluon.jit
def gl_roles(a, b, c, M, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """Persistent A B^T with three roles, a ring of operands and two accumulators in turn."""
    xs = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    ys = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    acc = allocate_tensor_memory(gl.float32, [2, BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    filled = mbarrier.allocate_mbarrier(batch=2)
    drained = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(filled.index(i), count=1)
        mbarrier.init(drained.index(i), count=1)
    tiles = gl.cdiv(M, BM)
    gl.warp_specialize([
        (_drain, (c, acc, filled, drained, tiles, BM, BN)),
        (_produce, (a, b, xs, ys, full, empty, tiles, K, BM, BN, BK, STAGES)),
        (_multiply, (xs, ys, acc, full, empty, filled, drained, tiles, K, BK, STAGES)),
    ], [1, 1], [24, 24])


@gluon.jit
def gl_scaled(a, sa, b, sb, c, K, N, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, FA: gl.constexpr,
              FB: gl.constexpr):
    """A (e4m3 or e5m2) times padded e2m1 by kind::mxf8f6f4; scales by tcgen05.cp from packed atoms."""
    ready = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(ready, count=1)
    mbarrier.init(done, count=1)
    xs = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    ys = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    us = gl.allocate_shared_memory(sa.dtype, sa.block_type.shape, sa.layout)
    vs = gl.allocate_shared_memory(sb.dtype, sb.block_type.shape, sb.layout)
    ut = allocate_tensor_memory(gl.uint8, [BM, BK // 32], TensorMemoryScalesLayout())
    vt = allocate_tensor_memory(gl.uint8, [BN, BK // 32], TensorMemoryScalesLayout())
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    row = gl.program_id(0)
    col = gl.program_id(1)
    phase = 0
    use = False
    for k in range(0, K, BK):
        mbarrier.expect(ready, a.nbytes_per_cta + b.nbytes_per_cta + sa.nbytes_per_cta + sb.nbytes_per_cta)
        tma.async_load(a, [row * BM, k], ready, xs)
        tma.async_load(b, [col * BN, k // 2], ready, ys)
        tma.async_load(sa, [0, row * (BM // 128), k // 128, 0, 0], ready, us)
        tma.async_load(sb, [0, col * (BN // 128), k // 128, 0, 0], ready, vs)
        mbarrier.wait(ready, phase)
        tcgen05_copy(us.reshape((BM // 128, BK // 128, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((BM, BK // 32)), ut)
        tcgen05_copy(vs.reshape((BN // 128, BK // 128, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((BN, BK // 32)), vt)
        tcgen05_mma_scaled(xs, ys.permute((1, 0)), acc, ut, vt, FA, FB, use_acc=use)
        tcgen05_commit(done)
        mbarrier.wait(done, phase)
        phase ^= 1
        use = True
    mbarrier.invalidate(ready)
    mbarrier.invalidate(done)
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    v = gl.convert_layout(acc.load(), layout)
    r = row * BM + gl.arange(0, BM, gl.SliceLayout(1, layout))
    s = col * BN + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(c + r[:, None] * N + s[None, :], v)


@gluon.jit
def gl_steal(x, y, owner, N, BLOCK: gl.constexpr):
    """Programs that take over the work of programs not launched yet (clusterlaunchcontrol)."""
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    tile = gl.program_id(0)
    phase = 0
    more = True
    while more:
        mbarrier.expect(bar, 16)
        clc.try_cancel(answer, bar)
        i = tile * BLOCK + gl.arange(0, BLOCK, layout)
        gl.store(y + i, gl.load(x + i, i < N, 0) * 3 + 1, i < N)
        gl.atomic_add(owner + tile, 1)
        mbarrier.wait(bar, phase)
        phase ^= 1
        result = clc.load_result(answer)
        more = result.is_canceled()
        if more:
            tile = result.program_id(0)
        gl.barrier()
    mbarrier.invalidate(bar)


@gluon.jit
def gl_packed(x, y, z, oadd, omul, ofma, oh, ob, N, BLOCK: gl.constexpr):
    """Two-lane arithmetic: f32x2, f16x2, bf16x2."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    keep = i < N
    a = gl.load(x + i, keep, 0.0)
    b = gl.load(y + i, keep, 0.0)
    c = gl.load(z + i, keep, 0.0)
    gl.store(oadd + i, bw.sub2(bw.add2(a, b), c), keep)
    gl.store(omul + i, bw.mul2(a, b), keep)
    gl.store(ofma + i, bw.fma2(a, b, c), keep)
    ah = a.to(gl.float16)
    bh = b.to(gl.float16)
    gl.store(oh + i, bw.max2(bw.fma2(ah, bh, ah), bw.min2(ah, bh)), keep)
    ab = a.to(gl.bfloat16)
    bb = b.to(gl.bfloat16)
    gl.store(ob + i, bw.add2(bw.mul2(ab, bb), bw.min2(ab, bb)), keep)


@gluon.jit
def gl_ld_reduce(x, y, top, low, BM: gl.constexpr, BN: gl.constexpr):
    """Loads from tensor memory with a row maximum and a row minimum of magnitudes (sm_103)."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    r = gl.arange(0, BM, gl.SliceLayout(1, layout))
    s = gl.arange(0, BN, gl.SliceLayout(0, layout))
    p = r[:, None] * BN + s[None, :]
    t = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    t.store(gl.convert_layout(gl.load(x + p), t.get_reg_layout()))
    v, m = t.load_max()
    w, n = t.load_min(abs=True)
    gl.store(y + p, gl.convert_layout(v, layout))
    q = gl.arange(0, BM, gl.SliceLayout(1, layout))
    gl.store(top + q, gl.convert_layout(m, gl.SliceLayout(1, layout)))
    gl.store(low + q, gl.convert_layout(n, gl.SliceLayout(1, layout)))


@gluon.jit
def gl_async_copy(x, y, N, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    """cp.async with completion on an mbarrier, then with groups."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    smem = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=128)
    i = gl.arange(0, BLOCK, layout)
    for j in gl.static_range(STAGES):
        async_copy.async_load(smem.index(j), x + j * BLOCK + i, mask=j * BLOCK + i < N)
    async_copy.mbarrier_arrive(bar, increment_count=False)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    v = smem.index(0).load(layout)
    for j in gl.static_range(1, STAGES):
        v += smem.index(j).load(layout)
    gl.barrier()
    async_copy.async_load(smem.index(0), x + i)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.barrier()
    gl.store(y + i, v - 2 * smem.index(0).load(layout))


@gluon.jit
def gl_tma_reduce(x, low, high, bits, either, odd, B: gl.constexpr, C: gl.constexpr):
    """TMA reductions of integers: min, max, and, or, xor, from every program into one tile."""
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    smem = gl.allocate_shared_memory(x.dtype, x.block_type.shape, x.layout)
    mbarrier.expect(bar, x.nbytes_per_cta)
    tma.async_load(x, [gl.program_id(0), 0, 0], bar, smem)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_atomic_min(low, [0, 0, 0], smem)
    tma.async_atomic_max(high, [0, 0, 0], smem)
    tma.async_atomic_and(bits, [0, 0, 0], smem)
    tma.async_atomic_or(either, [0, 0, 0], smem)
    tma.async_atomic_xor(odd, [0, 0, 0], smem)
    tma.store_wait(0)


@gluon.jit
def gl_multicast(x, y, N, B: gl.constexpr, C: gl.constexpr, WARPS: gl.constexpr):
    """One multicast TMA load feeds both CTAs of a cluster; each stores its own rows of the double."""
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    smem = gl.allocate_shared_memory(x.dtype, x.block_type.shape, x.layout)
    bw.cluster.barrier()
    mbarrier.expect(bar, x.nbytes_per_cta)
    tma.async_load(x, [gl.program_id(0) * B, 0], bar, smem, multicast=True)
    mbarrier.wait(bar, 0)
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [WARPS, 1], [1, 0], cga_layout=[[0, 0]])
    v = smem.load(layout)
    r = gl.program_id(0) * B + gl.arange(0, B, gl.SliceLayout(1, layout))
    s = gl.arange(0, C, gl.SliceLayout(0, layout))
    gl.store(y + r[:, None] * N + s[None, :], v + v)
    bw.cluster.barrier()
    mbarrier.invalidate(bar)


@gluon.jit
def gl_cluster_reduce(x, y, total, N, B: gl.constexpr, WARPS: gl.constexpr):
    """Layout changes and a sum across the two CTAs of a cluster (distributed shared memory)."""
    here: gl.constexpr = gl.BlockedLayout([4], [32], [WARPS], [0], cga_layout=[[1]])
    there: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0], cga_layout=[[1]])
    i = gl.program_id(0) * B + gl.arange(0, B, here)
    v = gl.load(x + i)
    gl.store(total + gl.program_id(0), gl.sum(v, 0))
    w = gl.convert_layout(gl.reshape(gl.permute(gl.reshape(v, (B // 64, 64)), (1, 0)), (B,)), there)
    gl.store(y + gl.program_id(0) * B + gl.arange(0, B, there), w)


@gluon.jit
def gl_mma_sync(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, ACC: gl.constexpr, WIDTH: gl.constexpr):
    """C = A B^T of one tile by mma.sync in the operands' own type."""
    wide: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [2, 1], [1, 0])
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [2, 1], [16, 8])
    r = gl.arange(0, M, gl.SliceLayout(1, wide))
    n = gl.arange(0, N, gl.SliceLayout(1, wide))
    k = gl.arange(0, K, gl.SliceLayout(0, wide))
    x = gl.load(a + r[:, None] * K + k[None, :])
    y = gl.permute(gl.load(b + n[:, None] * K + k[None, :]), (1, 0))
    x = gl.convert_layout(x, gl.DotOperandLayout(0, mma, WIDTH))
    y = gl.convert_layout(y, gl.DotOperandLayout(1, mma, WIDTH))
    v = bw.mma_v2(x, y, gl.zeros((M, N), ACC, mma))
    p = gl.arange(0, M, gl.SliceLayout(1, mma))[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, mma))[None, :]
    gl.store(c + p, v)


@gluon.jit
def gl_shared_atomics(x, index, total, high, bits, N, BLOCK: gl.constexpr, BINS: gl.constexpr):
    """Atomics on shared memory through scattered indices."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    i = gl.arange(0, BLOCK, layout)
    b = gl.arange(0, BINS, layout)
    v = gl.load(x + i)
    k = gl.load(index + i)
    add = gl.allocate_shared_memory(gl.int32, [BINS], flat, gl.zeros([BINS], gl.int32, layout))
    top = gl.allocate_shared_memory(gl.int32, [BINS], flat, gl.full([BINS], -1000000, gl.int32, layout))
    xor = gl.allocate_shared_memory(gl.int32, [BINS], flat, gl.zeros([BINS], gl.int32, layout))
    gl.barrier()
    add.atomic_scatter_add(v, k, axis=0)
    top.atomic_scatter_max(v, k, axis=0, mask=v > 0)
    xor.atomic_scatter_xor(v, k, axis=0)
    gl.barrier()
    gl.store(total + b, add.load(layout))
    gl.store(high + b, top.load(layout))
    gl.store(bits + b, xor.load(layout))


@gluon.jit
def gl_swizzles(x32, x64, x0, xt, y, B: gl.constexpr, C: gl.constexpr):
    """One tile through the four swizzles of TMA, stored as a weighted sum."""
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    s32 = gl.allocate_shared_memory(x32.dtype, x32.block_type.shape, x32.layout)
    s64 = gl.allocate_shared_memory(x64.dtype, x64.block_type.shape, x64.layout)
    s0 = gl.allocate_shared_memory(x0.dtype, x0.block_type.shape, x0.layout)
    st = gl.allocate_shared_memory(xt.dtype, xt.block_type.shape, xt.layout)
    mbarrier.expect(bar, x32.nbytes_per_cta + x64.nbytes_per_cta + x0.nbytes_per_cta + xt.nbytes_per_cta)
    tma.async_load(x32, [0, 0], bar, s32)
    tma.async_load(x64, [B, 0], bar, s64)
    tma.async_load(x0, [2 * B, 0], bar, s0)
    tma.async_load(xt, [3 * B, 0], bar, st)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    v = s32.load(layout) + 2 * s64.load(layout) + 4 * s0.load(layout) + 8 * st.load(layout)
    r = gl.arange(0, B, gl.SliceLayout(1, layout))
    s = gl.arange(0, C, gl.SliceLayout(0, layout))
    gl.store(y + r[:, None] * C + s[None, :], v)


def kernels(Kernel):
    p = lambda names, types: dict(zip(names.split(), ["*" + t for t in types.split()]))
    ints = lambda names: {n: "i32" for n in names.split()}

    def shared(bits, swizzle=128, rank=2, padded=False, cga=None):
        return gl.NVMMASharedLayout(swizzle_byte_width=swizzle, element_bitwidth=bits, rank=rank, fp4_padded=padded,
                                    cga_layout=cga)

    def desc(t, shape, layout):
        return f"tensordesc<{t}[{','.join(map(str, shape))}],{layout!r}>"

    f16, f8, u8 = shared(16), shared(8), shared(8, 0, 5)
    tmem = lambda m, n, t="fp16": dict(a=desc(t, (m, 64), f16), b=desc(t, (n, 64), f16), c="*fp32", **ints("K N"))
    G = lambda *a, **k: Kernel(*a, gluon=True, **k)
    rows, cols = [[1, 0]], [[0, 0]]
    return [
        G("gl_mma_tmem_16x64b", gl_mma_tmem, tmem(128, 64), dict(BM=128, BN=64, BK=64, VARIANT="16x64b", WARPS=4), ["K", "N"]),
        G("gl_mma_tmem_16x256b", gl_mma_tmem, tmem(128, 64, "bf16"), dict(BM=128, BN=64, BK=64, VARIANT="16x256b", WARPS=8), ["K", "N"], num_warps=8),
        G("gl_mma_tmem_m64", gl_mma_tmem, tmem(64, 64), dict(BM=64, BN=64, BK=64, VARIANT="16x128b", WARPS=4), ["K", "N"]),
        G("gl_store_shapes", gl_store_shapes, p("x y", "fp32 fp32"), dict(BM=128, BN=32, ST="16x256b", LD="16x128b", STRIDE=1)),
        G("gl_store_packed", gl_store_shapes, p("x y", "fp16 fp16"), dict(BM=128, BN=32, ST="32x32b", LD="32x32b", STRIDE=2)),
        G("gl_copy_shapes", gl_copy_shapes, p("x y", "fp32 fp32"), dict(BM=128, BN=32)),
        G("gl_pair", gl_pair,
          dict(a=desc("fp16", (256, 64), shared(16, cga=rows)), b=desc("fp16", (128, 64), shared(16, cga=rows)),
               c=desc("fp16", (256, 128), shared(16, cga=rows)), K="i32"), dict(BM=256, BN=128, BK=64), ["K"], num_ctas=2),
        G("gl_pair_m128", gl_pair,
          dict(a=desc("bf16", (128, 64), shared(16, cga=rows)), b=desc("bf16", (64, 64), shared(16, cga=rows)),
               c=desc("bf16", (128, 64), shared(16, cga=rows)), K="i32"), dict(BM=128, BN=64, BK=64), ["K"], num_ctas=2),
        G("gl_pair_scaled", gl_pair_scaled,
          dict(a=desc("fp8e4nv", (256, 128), shared(8, cga=rows)), b=desc("fp8e4nv", (128, 128), shared(8, cga=rows)),
               sa=desc("u8", (1, 2, 1, 2, 256), shared(8, 0, 5, cga=[[0, 1, 0, 0, 0]])),
               sb=desc("u8", (1, 1, 1, 2, 256), shared(8, 0, 5, cga=[[0, 0, 0, 0, 0]])), c="*fp32", **ints("K N")),
          dict(BM=256, BN=128, BK=128, FA="e4m3", FB="e4m3"), ["K", "N"], num_ctas=2),
        G("gl_roles", gl_roles,
          dict(a=desc("bf16", (128, 64), f16), b=desc("bf16", (64, 64), f16), c=desc("bf16", (128, 64), f16), **ints("M K")),
          dict(BM=128, BN=64, BK=64, STAGES=3), ["K"]),
        G("gl_mxfp8_fp4_padded", gl_scaled,
          dict(a=desc("fp8e4nv", (128, 128), f8), b=desc("u8", (128, 64), shared(8, padded=True)), sa=desc("u8", (1, 1, 1, 2, 256), u8),
               sb=desc("u8", (1, 1, 1, 2, 256), u8), c="*fp32", **ints("K N")),
          dict(BM=128, BN=128, BK=128, FA="e4m3", FB="e2m1"), ["K", "N"]),
        G("gl_steal", gl_steal, p("x y owner", "i32 i32 i32") | ints("N"), dict(BLOCK=256)),
        G("gl_packed", gl_packed, p("x y z oadd omul ofma oh ob", "fp32 fp32 fp32 fp32 fp32 fp32 fp16 bf16") | ints("N"), dict(BLOCK=512)),
        G("gl_ld_reduce_sm103", gl_ld_reduce, p("x y top low", "fp32 fp32 fp32 fp32"), dict(BM=128, BN=64), arch=103),
        G("gl_async_copy", gl_async_copy, p("x y", "fp32 fp32") | ints("N"), dict(BLOCK=512, STAGES=3)),
        G("gl_tma_reduce", gl_tma_reduce,
          {k: desc("i32", (1, 16, 32), shared(32, 128, 3)) for k in "x low high bits either odd".split()}, dict(B=16, C=32)),
        G("gl_multicast", gl_multicast, dict(x=desc("fp32", (64, 32), shared(32, cga=cols)), y="*fp32", N="i32"),
          dict(B=64, C=32, WARPS=4), num_ctas=2),
        G("gl_cluster_reduce", gl_cluster_reduce, p("x y total", "fp32 fp32 fp32") | ints("N"), dict(B=1024, WARPS=4), num_ctas=2),
        G("gl_mma_sync_e4m3", gl_mma_sync, p("a b c", "fp8e4nv fp8e5 fp32"), dict(M=32, N=16, K=64, ACC=gl.float32, WIDTH=4), num_warps=2),
        G("gl_mma_sync_tf32", gl_mma_sync, p("a b c", "fp32 fp32 fp32"), dict(M=32, N=16, K=32, ACC=gl.float32, WIDTH=1), num_warps=2),
        G("gl_mma_sync_acc16", gl_mma_sync, p("a b c", "fp16 fp16 fp16"), dict(M=32, N=16, K=32, ACC=gl.float16, WIDTH=2), num_warps=2),
        G("gl_shared_atomics", gl_shared_atomics, p("x index total high bits", "i32 i32 i32 i32 i32") | ints("N"), dict(BLOCK=512, BINS=128)),
        G("gl_swizzles", gl_swizzles,
          dict(x32=desc("fp32", (32, 16), shared(32, 32)), x64=desc("fp32", (32, 16), shared(32, 64)),
               x0=desc("fp32", (32, 16), shared(32, 0)), xt=desc("fp32", (32, 16), shared(32, 64)), y="*fp32"), dict(B=32, C=16)),
    ]
