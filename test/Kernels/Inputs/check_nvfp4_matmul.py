"""Compares flamia-eval on the NVFP4 matmul with numpy, which decodes the operands by itself.

    check_nvfp4_matmul.py PROGRAM.mlir DIR      DIR as written by make_case.py nvfp4_matmul
"""
import json
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import nvfp4


def decode(folder, name):
    values = nvfp4.decode(np.load(f"{folder}/{name}.npy"))
    atoms = np.load(f"{folder}/{name}_scale.npy")
    row, column = np.indices(values.shape)
    block = column // 16
    return values * nvfp4.e4m3(atoms[row // 128, column // 128, block // 4 % 2, nvfp4.place(row, block)])


def main():
    program, folder = sys.argv[1:]
    with open(f"{folder}/args.json") as file:
        args = json.load(file)["args"]
    subprocess.run(["flamia-eval", program, "--launch", f"{folder}/args.json"], check=True)
    got = np.load(f"{folder}/{args['out']['output']}")
    want = (decode(folder, "a") @ decode(folder, "b").T) * (args["a_global"] * args["b_global"])
    # The evaluator carries the sum of each k tile in fp32.
    error = np.abs(got - want).max() / np.abs(want).max()
    print(f"largest error {error:.2g}")
    assert np.isfinite(want).all() and np.abs(want).max() > 1
    return 0 if error < 1e-6 else 1


sys.exit(main())
