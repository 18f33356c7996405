#!/usr/bin/env python3
"""Runs case folders written by make_cases.py on a real GPU through libcuda and compares as flamia-sim does.

usage: run_cuda.py DIR [--save FILE.npz] [NAME...]     (needs NumPy and a CUDA driver; the PTX must suit the GPU)

--save keeps the raw outputs, for a comparison bit for bit: compare_outputs.py.

On a B200 or B300 it runs the committed files as they are. On an H200 it checks
the kernels' definitions against the expected outputs with PTX made for it:
    generate.py --arch 90 --out P; make_cases.py D --ptx P; run_cuda.py D
(kernels that use tcgen05 themselves do not compile for it).
"""
import argparse
import ctypes
import json
import os
import sys

import numpy as np

TYPES = dict(u8=0, u16=1, u32=2, s32=3, u64=4, s64=5, f16=6, f32=7, f64=8, bf16=9, f32_ftz=10, tf32=11, tf32_ftz=12)
TYPES.update({"16u4_align8b": 13, "16u4_align16b": 14, "16u6_align16b": 15})
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


class Cuda:
    """The few calls of the driver interface that a launch needs."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'').decode()} ({code})")

    def upload(self, array):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(array.nbytes, 1)))
        self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        return pointer

    def tensor_map(self, spec, pointer):
        raw = (ctypes.c_uint8 * 192)()
        place = (ctypes.addressof(raw) + 63) // 64 * 64
        rank = len(spec["dims"])
        array = lambda kind, values: (kind * max(len(values), 1))(*values)
        self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(place), TYPES[spec["type"]], rank, pointer,
                  array(ctypes.c_uint64, spec["dims"]), array(ctypes.c_uint64, spec["strides"]),
                  array(ctypes.c_uint32, spec["box"]), array(ctypes.c_uint32, spec["element_strides"]), 0,
                  SWIZZLES[spec["swizzle"]], 2, 0)
        return raw, place


def run(cuda, folder, saved):
    """Launches one case; returns messages about what differs. Raw outputs go to `saved`."""
    with open(os.path.join(folder, "launch.json")) as f:
        launch = json.load(f)
    with open(os.path.join(folder, launch["ptx"]), "rb") as f:
        text = f.read() + b"\0"
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.call("cuModuleLoadData", ctypes.byref(module), text)
    cuda.call("cuModuleGetFunction", ctypes.byref(function), module, launch["entry"].encode())
    cuda.call("cuFuncSetAttribute", function, 8, launch["dynamic_smem"])
    keep, values, outputs = [], [], {}
    for param in launch["params"]:
        spec = param.get("tensormap", param)
        if "buffer" in spec:
            array = np.load(os.path.join(folder, spec["buffer"]))
            pointer = cuda.upload(array)
            if "output" in spec:
                outputs[spec["output"]] = (array, pointer, spec.get("dtype"))
        if "tensormap" in param:
            raw, place = cuda.tensor_map(spec, pointer)
            keep.append(raw)
            values.append(place)
            continue
        value = pointer if "buffer" in param else ctypes.c_int32(param["i32"]) if "i32" in param else ctypes.c_uint64(param["u64"])
        keep.append(value)
        values.append(ctypes.addressof(value))
    params = (ctypes.c_void_p * len(values))(*values)
    cuda.call("cuLaunchKernel", function, *launch["grid"], *launch["block"], launch["dynamic_smem"], None, params, None)
    cuda.call("cuCtxSynchronize")
    found = {}
    for name, (array, pointer, dtype) in outputs.items():
        cuda.call("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), pointer, ctypes.c_size_t(array.nbytes))
        saved[os.path.basename(folder) + "/" + name] = array
        if dtype == "bf16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        found[name] = array
    return [m for rule in launch["expect"] for m in compare(rule, found[rule["output"]], np.load(os.path.join(folder, rule["expected"])))]


def compare(rule, got, want):
    if rule.get("bitwise"):
        bad = got.reshape(-1).view(f"u{got.itemsize}") != want.reshape(-1).view(f"u{want.itemsize}")
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            yield f"{rule['output']}: {bad.sum()} of {bad.size} differ, first [{i}]: {got.reshape(-1)[i]!r}, expected {want.reshape(-1)[i]!r}"
        return
    g, w = got.astype(np.float64).reshape(-1), want.astype(np.float64).reshape(-1)
    if "max_abs" in rule:
        error, limit = np.abs(g - w).max(), rule["max_abs"]
    else:
        error, limit = np.linalg.norm(g - w) / np.linalg.norm(w), rule["relative_frobenius"]
    if not error <= limit:
        yield f"{rule['output']}: error {error:.3g}, limit {limit:.3g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--save")
    args = parser.parse_intermixed_args()
    cuda = Cuda()
    names = args.names or sorted(os.listdir(args.dir))
    failed, saved = 0, {}
    for name in names:
        try:
            messages = run(cuda, os.path.join(args.dir, name), saved)
        except RuntimeError as error:
            messages = [str(error)]
        failed += bool(messages)
        print(("FAIL " if messages else "pass ") + name + "".join("\n    " + m for m in messages), flush=True)
    print(f"{len(names) - failed} of {len(names)} pass")
    if args.save:
        np.savez_compressed(args.save, **saved)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
