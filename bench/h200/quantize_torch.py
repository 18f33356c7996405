"""The same quantization of Q, K and V by torch.compile, and public MX quantizers, on a GPU.

Run in the same call as quantize_bench, for comparison. Q and K: rotation, one E8M0 scale a token,
E4M3 payload; V: one scale per 32x32 block. Scales are written in the 128x4 layout. Bytes are counted as in
quantize_bench. Format nvfp4 adds E2M1 copies of Q and K with UE4M3 scales. torchao's quantizers (1x32 blocks, no rotation) are measured where torchao is installed.
"""
import sys
import torch
from torch import Tensor

DEVICE = "cuda"


def hadamard(n: int) -> Tensor:
    h = torch.ones(1, 1)
    while h.shape[0] < n:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    c = torch.arange(n)
    bit = lambda i: (c >> i) & 1
    sign = 1 - 2 * ((bit(0) & bit(1)) ^ (bit(2) & bit(3)) ^ (bit(4) & bit(5)))
    return (sign[:, None] * h / n**0.5).to(DEVICE)


def scale_byte(amax: Tensor) -> Tensor:
    bits = amax.view(torch.int32)
    return (((bits + 0x1FFFFF) >> 23) - 8).clamp(0, 254)


def factor(byte: Tensor) -> Tensor:
    return ((254 - byte) << 23).view(torch.float32)


def atoms(byte: Tensor) -> Tensor:
    """[T, H, J] bytes to [T / 128, H, 32, 4, J]."""
    t, h, j = byte.shape
    return byte.view(t // 128, 4, 32, h, j).permute(0, 3, 2, 1, 4).contiguous()


def per_token(x: Tensor):
    byte = scale_byte(x.abs().amax(-1, keepdim=True))
    return (x * factor(byte)).to(torch.float8_e4m3fn), atoms(byte.to(torch.uint8).expand(-1, -1, 4))


def per_block(x: Tensor, g: float):
    """E2M1 with a UE4M3 scale per 16 channels."""
    t, h, d = x.shape
    blocks = x.view(t, h, d // 16, 16)
    scale = (blocks.abs().amax(-1) / 6 / g).clamp(max=448).to(torch.float8_e4m3fn)
    divisor = scale.float() * g
    y = blocks / divisor[..., None]
    m = y.abs()
    code = (m > 0.25).to(torch.uint8) + (m >= 0.75) + (m > 1.25) + (m >= 1.75) + (m > 2.5) + (m >= 3.5) + (m > 5)
    code = torch.where(divisor[..., None] != 0, code | ((y < 0).to(torch.uint8) << 3), 0).view(t, h, d)
    byte = scale.view(torch.uint8).view(t, h, d // 64, 4)
    byte = byte.view(t // 128, 4, 32, h, d // 64, 4).permute(0, 3, 4, 2, 1, 5).contiguous()
    return code[..., 0::2] | code[..., 1::2] << 4, byte


def quantize_mixed(x: Tensor, h: Tensor):
    t, heads, d = x.shape
    y = (x.reshape(-1, d) @ h).view(t, heads, d).float()
    return per_token(y), per_block(y, 0.125)


def quantize_rotated(x: Tensor, h: Tensor):
    t, heads, d = x.shape
    return per_token((x.reshape(-1, d) @ h).view(t, heads, d).float())


def quantize_plain(x: Tensor):
    return per_token(x.float())


def quantize_butterflies(x: Tensor):
    t, heads, d = x.shape
    y = x.float()
    n = 1
    while n < d:
        y = y.view(t, heads, d // (2 * n), 2, n)
        a, b = y[..., 0, :], y[..., 1, :]
        y = torch.stack([a + b, a - b], -2).view(t, heads, d)
        n *= 2
    return per_token(y * d**-0.5)


def quantize_block(x: Tensor):
    t, h, d = x.shape
    blocks = x.float().view(t // 32, 32, h, d // 32, 32)
    byte = scale_byte(blocks.abs().amax((1, 4), keepdim=True))
    payload = (blocks * factor(byte)).to(torch.float8_e4m3fn).view(t, h, d)
    byte = byte.to(torch.uint8)
    cols = atoms(byte.expand(-1, 32, -1, -1, -1).reshape(t, h, d // 32))
    rows = byte.view(t // 128, 4, h, d // 32).permute(0, 2, 3, 1)[:, :, None].expand(-1, -1, 32, -1, -1).contiguous()
    return payload, cols, rows


def time_us(work) -> float:
    work()
    torch.cuda.synchronize()
    times = []
    for _ in range(7):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(4):
            work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 250)
    return sorted(times)[3]


def main() -> None:
    print("torch", torch.__version__, torch.cuda.get_device_name())
    big = torch.empty(1 << 30, dtype=torch.uint8, device=DEVICE)
    to = torch.empty_like(big)
    peak = 2 * (1 << 30) / time_us(lambda: to.copy_(big)) * 1e-6
    print(f"copy of 1 GiB: {peak:.3f} TB/s (read + written)")
    del big, to
    for t, h, d in [(16384, 64, 128)] if len(sys.argv) < 2 else [(16384, 64, 64), (16384, 64, 128), (2048, 8, 128)]:
        q, k, v = (torch.randn(t, h, d, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
        size = 3 * t * h * d * 3 + t // 128 * h * 512 * 4

        def report(name, work, size=size):
            try:
                us = time_us(work)
                rate = size / us * 1e-6
                print(f"T {t} H {h} D {d} {name:44s} {us:9.1f} us {rate:.3f} TB/s {rate / peak:.3f} of copy", flush=True)
            except Exception as error:  # a package that does not run here is a result too
                print(f"T {t} H {h} D {d} {name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)

        rotation = hadamard(d).to(torch.bfloat16)

        def fused(rotate):
            def quantize(q, k, v):
                return rotate(q), rotate(k), quantize_block(v)

            return torch.compile(quantize)

        matmul = fused(lambda x: quantize_rotated(x, rotation))
        report("torch.compile, rotation by matmul", lambda: matmul(q, k, v))
        mixed = fused(lambda x: quantize_mixed(x, rotation))
        more = 2 * (t * h * d // 2 + t * h * d // 16)
        report("torch.compile nvfp4, rotation by matmul", lambda: mixed(q, k, v), size + more)
        plain = fused(quantize_plain)
        report("torch.compile, no rotation", lambda: plain(q, k, v))
        butterflies = fused(quantize_butterflies)
        report("torch.compile, rotation by butterflies", lambda: butterflies(q, k, v))
        torchao(q, k, v, report)


def torchao(q: Tensor, k: Tensor, v: Tensor, report) -> None:
    try:
        import torchao
        from torchao.prototype.mx_formats import kernels
        from torchao.prototype.mx_formats.mx_tensor import to_mx
        from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize
    except Exception as error:
        print("torchao:", type(error).__name__, str(error)[:200])
        return
    print("torchao", torchao.__version__, [n for n in dir(kernels) if n.startswith("triton_to")])
    x = q.view(-1, q.shape[-1])
    size = x.numel() * 3 + x.numel() // 32
    compiled = torch.compile(lambda x: to_mx(x, torch.float8_e4m3fn, 32))
    report("torchao to_mx compiled, Q alone, 1x32", lambda: compiled(x), size)
    nvfp4 = torch.compile(lambda x: nvfp4_quantize(x))
    report("torchao nvfp4_quantize compiled, Q alone, 1x16", lambda: nvfp4(x), x.numel() * 5 // 2 + x.numel() // 16)
    # torchao has these for compute capability 10 only.
    for name in ["triton_to_mxfp8_dim0", "triton_to_mxfp8_dim1"]:
        function = getattr(kernels, name, None)
        if function:
            report(f"torchao {name}, Q alone", lambda: function(x, inner_block_size=32), size)


main()
