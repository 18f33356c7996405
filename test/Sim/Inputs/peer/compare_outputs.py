#!/usr/bin/env python3
"""Compares outputs of a GPU (run_cuda.py --save) with those that flamia-sim left in the same case folders.

usage: compare_outputs.py FILE.npz DIR      prints a line per output: how many elements differ in any bit
"""
import os
import sys

import numpy as np


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    gpu = np.load(sys.argv[1])
    for key in sorted(gpu.files):
        path = os.path.join(sys.argv[2], key)
        if not os.path.exists(path):
            print(f"{key}: not run")
            continue
        a, b = gpu[key].reshape(-1), np.load(path).reshape(-1)
        differ = np.flatnonzero(a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}"))
        text = f"{key}: {len(differ)} of {a.size} differ"
        if len(differ) and a.dtype.kind == "f":
            u = np.abs(a.view(f"i{a.itemsize}").astype(np.int64) - b.view(f"i{b.itemsize}").astype(np.int64))
            text += f", at most {u.max()} ulp, first [{differ[0]}]: GPU {a[differ[0]]!r}, simulator {b[differ[0]]!r}"
        print(text)


if __name__ == "__main__":
    main()
