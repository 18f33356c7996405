#!/usr/bin/env python3
"""The device-side work list on a GPU: every entry against the host's rule, and its time.

    flamiac kernels/work_list.mlir -arch=sm_90 -o lists/
    python3 bench/h200/work_list.py lists

Needs numpy and the CUDA driver (ctypes), no toolkit. Prints a table; exits 1 if a list differs.
"""

import ctypes
import json
import pathlib
import sys

import numpy as np

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        sys.exit(f"{name} failed: {text.value.decode()}")


class Buffer:
    def __init__(self, array, room=0):
        """`room` bytes beyond the array hold a pattern that must stay."""
        self.array, self.room = array, room
        self.pointer = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(max(array.nbytes, 16) + room))
        call("cuMemsetD8_v2", self.pointer, ctypes.c_ubyte(0xAB), ctypes.c_size_t(max(array.nbytes, 16) + room))
        if array.nbytes:
            call("cuMemcpyHtoD_v2", self.pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))

    def read(self):
        data = np.empty(self.array.nbytes + self.room, np.uint8)
        call("cuMemcpyDtoH_v2", data.ctypes.data_as(ctypes.c_void_p), self.pointer, ctypes.c_size_t(data.nbytes))
        assert (data[self.array.nbytes:] == 0xAB).all(), "wrote past the end"
        return data[:self.array.nbytes].view(np.int32).reshape(self.array.shape)

    def free(self):
        call("cuMemFree_v2", self.pointer)


class Kernel:
    def __init__(self, folder, name):
        self.record = json.loads((folder / f"{name}.json").read_text())
        code = (folder / self.record["cubin"]).read_bytes()
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), code)
        call("cuModuleGetFunction", ctypes.byref(self.function), module, self.record["entry"].encode())

    def launch(self, args):
        values = []
        for param in self.record["params"]:
            if "pointer" in param:
                values.append(ctypes.c_uint64(args[param["pointer"]].pointer.value))
            elif "dim" in param:
                name, dim = param["dim"]
                values.append(ctypes.c_uint64(args[name].array.shape[dim]))
            else:
                values.append(ctypes.c_int32(args[param["scalar"]]))
        x = self.record["grid"][0]
        if isinstance(x, dict):
            x = -(-args[x["arg"]].array.shape[x["dim"]] // x["tile"])
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        if x:
            call("cuLaunchKernel", self.function, x, 1, 1, self.record["block"][0], 1, 1, 0, None, pointers, None)


def dealt(entries, sms, kv_heads):
    """dealSecondWave of lib/Schedule."""
    def wave(number):
        return number * sms // kv_heads

    def tile(number):
        return int(entries[wave(number)][2]) if wave(number) < len(entries) else 0

    first, end = wave(1), wave(2)
    if not end < len(entries) <= wave(32):
        return entries
    missing = 2 * tile(1) - tile(0) + sum(tile(w) * (-2 if w % 2 else 2) for w in range(3, 32))
    difference = tile(1) - tile(2)
    if missing <= 16 or difference <= 0:
        return entries
    block = min(end - first, (end - first) * missing // difference)
    order = np.arange(len(entries))
    for start in range(first, end, max(block, 1)):
        size = min(block, end - start)
        order[start:start + size:2] = start + size // 2 + np.arange((size + 1) // 2)
        order[start + 1:start + size:2] = start + np.arange(size // 2)
    return entries[order]


def expected(cu, causal, sms, kv_heads):
    length = np.diff(cu)
    tiles = -(-length // 128)
    base = np.concatenate([[0], np.cumsum(tiles)[:-1]])
    order = np.argsort(-tiles, kind="stable")
    entries = []
    if causal:
        count = len(order)
        for tile in range(int(tiles.max(initial=0)) - 1, -1, -1):
            count = int((tiles > tile).sum())
            d = order[:count]
            entries.append(np.stack([cu[d], cu[d + 1], np.full(count, tile), base[d]], 1))
        return dealt(np.concatenate(entries + [np.zeros((0, 4))]).astype(np.int32), sms, kv_heads)
    else:
        for d in order:
            t = np.arange(tiles[d])
            entries.append(np.stack([np.full(len(t), cu[d]), np.full(len(t), cu[d + 1]), t, np.full(len(t), base[d])], 1))
    return np.concatenate(entries + [np.zeros((0, 4))]).astype(np.int32)


def mixes(tokens):
    rng = np.random.default_rng(7)

    def fill(draw):
        lengths, left = [], tokens
        while left:
            lengths.append(min(left, max(1, int(draw()))))
            left -= lengths[-1]
        return lengths

    return {
        "one document": [tokens],
        "all 32768": [32768] * (tokens // 32768),
        "all 512": [512] * (tokens // 512),
        "log-normal, mean 2k": fill(lambda: rng.lognormal(np.log(2048) - 0.5, 1)),
        "Zipf": fill(lambda: np.exp(rng.random() * np.log(65536))),
        "1 x 512k, rest 64": [tokens // 2] + [64] * (tokens // 128),
        "lengths 1-31": fill(lambda: rng.integers(1, 32)),
        "lengths 1-255": fill(lambda: rng.integers(1, 256)),
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    call("cuInit", 0)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxPushCurrent_v2", context)
    name = ctypes.create_string_buffer(100)
    call("cuDeviceGetName", name, 100, device)
    print(name.value.decode())
    sms = ctypes.c_int()
    call("cuDeviceGetAttribute", ctypes.byref(sms), 16, device)
    kernels = [Kernel(folder, "order_documents"), Kernel(folder, "build_work_list")]
    start, end = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuEventCreate", ctypes.byref(start), 0)
    call("cuEventCreate", ctypes.byref(end), 0)
    failed, dealt_lists = False, 0

    def check(title, cu, tokens, causal, legal=True, timed=True, kv_heads=1):
        nonlocal failed, dealt_lists
        documents = len(cu) - 1
        capacity = max(1, (tokens + 127 * documents) // 128)
        scratch = lambda *shape: Buffer(np.full(shape, -7, np.int32), 256)
        args = {"cu_seqlens": Buffer(np.array(cu, np.int32), 256), "tokens": tokens, "causal": int(causal),
                "sms": sms.value, "kv_heads": kv_heads,
                "work": scratch(capacity, 4), "document_order": scratch(2, documents),
                "document_scale_base": scratch(documents), "document_steps": scratch(documents),
                "list_state": scratch(8)}
        want = expected(np.array(cu, np.int64), causal, sms.value, kv_heads) if legal else np.zeros((0, 4), np.int32)

        def microseconds(which):
            times = []
            for _ in range(20):
                call("cuEventRecord", start, None)
                for kernel in which:
                    kernel.launch(args)
                call("cuEventRecord", end, None)
                call("cuEventSynchronize", end)
                ms = ctypes.c_float()
                call("cuEventElapsedTime", ctypes.byref(ms), start, end)
                times.append(ms.value * 1e3)
            return sorted(times)[len(times) // 2]

        times = [microseconds(kernels)] + [microseconds([k]) for k in kernels] if timed else []
        if not timed:
            for kernel in kernels:
                kernel.launch(args)
        call("cuCtxSynchronize")
        got, state = args["work"].read(), args["list_state"].read()
        same = (len(want) == state[0] and (got[:len(want)] == want).all() and not got[len(want):].any()
                and bool(state[3]) == (not legal))
        for value in args.values():
            if isinstance(value, Buffer):
                if value is not args["work"]:
                    value.read()
                value.free()
        failed |= not same
        dealt_lists += legal and state[6] > 1
        print(f"| {title} | {documents} | {len(want)} | {'yes' if same else 'NO'} | " +
              " | ".join(f"{t:.1f}" for t in times) + " |", flush=True)

    print("| 1048576 tokens | documents | entries | equal | both, us | order_documents | build_work_list |")
    print("|---|---|---|---|---|---|---|")
    for title, lengths in mixes(1 << 20).items():
        cu = [0] + list(np.cumsum(lengths))
        check(title, cu, 1 << 20, True)
        if title == "lengths 1-255":
            check(title + ", not causal", cu, 1 << 20, False)
    for title, lengths in {"1 x 64k": [65536], "1 x 64k + 1000 x 64": [65536] + [64] * 1000, "4 x 16k": [16384] * 4}.items():
        check(title, [0] + list(np.cumsum(lengths)), sum(lengths), True)
    for title, cu, tokens in [("falls", [0, 5, 3, 9], 9), ("negative", [0, -5, 9], 9), ("starts at 1", [1, 9], 9),
                              ("past the tensor", [0, 5, 10], 9), ("extremes", [0, 2**31 - 1, -2**31], 9),
                              ("noise", np.random.default_rng(1).integers(-2**31, 2**31, 5000), 1 << 20)]:
        check("illegal: " + title, list(cu), tokens, True, legal=False, timed=False)
    rng = np.random.default_rng(3)
    for run in range(40):
        lengths = rng.integers(0, rng.choice([2, 200, 3000, 200000]), rng.integers(1, 3000))
        cu = [0] + list(np.cumsum(lengths))
        if cu[-1] < 2**31:
            check(f"random {run}", cu, cu[-1], run % 2 == 0, timed=False)
    for run in range(40):
        kv_heads = int(rng.integers(1, 9))
        lengths = rng.integers(0, 200000 // kv_heads, rng.integers(1, 4))
        cu = [0] + list(np.cumsum(lengths))
        check(f"few {run}", cu, cu[-1], True, timed=False, kv_heads=kv_heads)
    print(f"{dealt_lists} lists with a dealt second wave")
    sys.exit(failed or not dealt_lists)


if __name__ == "__main__":
    main()
