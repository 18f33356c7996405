#!/usr/bin/env python3
"""Writes inputs, expected outputs and launch.json for every PTX file of this folder.

usage: make_cases.py OUTDIR [--ptx DIR] [NAME...]      (needs NumPy only)

Expected outputs are computed here in fp64 or in exact integers from the
definition of each kernel (kernels_*.py), never by running anything of flamia.
The format of launch.json is the one of flamia-sim (docs/cli). NAME restricts
the output to some cases; --ptx names a folder with other PTX files and their
manifest.json (generate.py --out DIR --arch N).
"""
import argparse
import json
import os
import shutil
import sys

import numpy as np

import reference_gluon
import reference_matmul
import reference_vector

HERE = os.path.dirname(os.path.abspath(__file__))


class Case:
    """Collects one launch: parameters in PTX order, buffers, expectations."""

    def __init__(self, out, name, manifest, grid, ptx_dir):
        self.meta = manifest[name]
        self.dir = os.path.join(out, name)
        os.makedirs(self.dir, exist_ok=True)
        shutil.copy(os.path.join(ptx_dir, self.meta["ptx"]), self.dir)
        clusters = self.meta["cluster"][0]
        grid = (list(grid) + [1, 1])[:3]
        grid[0] *= clusters
        self.maps = list(self.meta["tensor_maps"])
        self.launch = dict(ptx=self.meta["ptx"], entry=self.meta["entry"], grid=grid, block=self.meta["block"],
                           cluster=self.meta["cluster"], dynamic_smem=self.meta["dynamic_smem"], params=[], expect=[])

    def _save(self, name, array):
        np.save(os.path.join(self.dir, name + ".npy"), np.ascontiguousarray(array))
        return name + ".npy"

    def _expect(self, name, expected, **rule):
        self.launch["expect"].append(dict(output=name + "_out.npy", expected=self._save(name + "_expected", expected), **rule))

    def inp(self, name, array):
        self.launch["params"].append(dict(buffer=self._save(name, array)))

    def out(self, name, expected, start=None, bf16=False, rel=None, max_abs=None):
        """A buffer that is written. Without `rel` and `max_abs` it must match bit for bit.

        `start`: its contents before (default: a pattern of ones, NaN for floats).
        `bf16`: `expected` holds values, the buffer holds their upper halves.
        """
        raw = np.asarray(expected)
        if start is None:
            dtype = np.dtype(np.uint16 if bf16 else raw.dtype)
            start = np.full(raw.size * dtype.itemsize, 0xFF, np.uint8).view(dtype).reshape(raw.shape)
        param = dict(buffer=self._save(name, start), output=name + "_out.npy")
        self.launch["params"].append(param)
        self.check(param, name, raw, bf16, rel, max_abs)

    def check(self, param, name, raw, bf16, rel, max_abs):
        if rel or max_abs:
            if bf16:
                param["dtype"] = "bf16"
            if raw.dtype != np.float64 or bf16:
                raw = raw.astype(np.float32)
        if rel:
            self._expect(name, raw, relative_frobenius=rel)
        if max_abs:
            self._expect(name, raw, max_abs=max_abs)
        if not rel and not max_abs:
            self._expect(name, raw, bitwise=True)

    def tensor(self, name, array, expected=None, bf16=False, rel=None, max_abs=None):
        """A host-made tensor map (row-major, whole array) with Triton's shape and stride arguments after it."""
        meta = self.maps.pop(0)
        shape = list(array.shape)
        size = array.dtype.itemsize
        strides = [int(np.prod(shape[i + 1:])) for i in range(len(shape))]
        dims = shape[::-1]
        if meta["type"].startswith("16u4"):  # a map counts single elements, Triton bytes of two
            dims[0] *= 2
        spec = dict(buffer=self._save(name, array), type=meta["type"], dims=dims,
                    strides=[s * size for s in strides[-2::-1]], box=meta["box"],
                    element_strides=[1] * len(shape), swizzle=meta["swizzle"], interleave="none", oob_fill="zero")
        if expected is not None:
            spec["output"] = name + "_out.npy"
            self.check(spec, name, expected, bf16, rel, max_abs)
        self.launch["params"].append(dict(tensormap=spec))
        for extent in shape:
            self.i32(extent)
        for stride in strides:
            self.launch["params"].append(dict(u64=stride))

    def i32(self, *values):
        for value in values:
            self.launch["params"].append(dict(i32=int(value)))

    def f32(self, value):
        """A float goes by its bits, so that the format needs no further kind."""
        self.i32(int(np.float32(value).view(np.int32)))

    def close(self):
        scratch = self.meta["scratch"]
        if scratch:
            blocks = int(np.prod(self.launch["grid"]))
            self.launch["params"].append(dict(buffer=self._save("scratch", np.zeros(scratch * blocks, np.uint8)),
                                              output="scratch_out.npy"))
        else:
            self.launch["params"].append(dict(u64=0))
        self.launch["params"].append(dict(u64=0))
        found, wanted = len(self.launch["params"]), self.meta["params"]
        if found != wanted:
            sys.exit(f"{self.launch['entry']}: {found} parameters, but the PTX has {wanted}")
        with open(os.path.join(self.dir, "launch.json"), "w") as f:
            json.dump(self.launch, f, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ptx", default=HERE)
    args = parser.parse_intermixed_args()
    with open(os.path.join(args.ptx, "manifest.json")) as f:
        manifest = json.load(f)
    builders = {**reference_matmul.CASES, **reference_vector.CASES, **reference_gluon.CASES}
    missing = set(manifest) - set(builders)
    if args.ptx == HERE:
        missing |= set(builders) - set(manifest)
    if missing:
        sys.exit("kernels and cases disagree: " + " ".join(sorted(missing)))
    for name in args.names or sorted(manifest):
        builders[name](lambda grid, name=name: Case(args.out, name, manifest, grid, args.ptx))


if __name__ == "__main__":
    main()
