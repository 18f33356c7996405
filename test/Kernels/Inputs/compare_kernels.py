"""Compares every kernel of a file three ways (compare.py), with inputs made from its types.

    compare_kernels.py FILE.mlir [NAME=VALUE ...] [options of compare.py]

Tensors get small random values and 512 rows, arrays of scales 4 x 4 tiles; NAME=VALUE sets an index argument (default 3).
Each kernel may name the tensors it stores in any order; all of them are compared.
"""
import json
import os
import re
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare
from random_program import bf16

ROWS = 512


def tensor(rng, dims, element):
    if element == "f8E8M0FNU":
        return rng.integers(124, 130, dims).astype(np.uint8)
    if element == "f4E2M1FN":
        return rng.integers(0, 256, dims[:-1] + [dims[-1] // 2]).astype(np.uint8)
    if element == "f8E4M3FN" and len(dims) == 4:
        # Scales of NVFP4, from 2^-7 to 1.9, some 0.
        return rng.integers(0, 0x40, dims).astype(np.uint8)
    if element == "f8E4M3FN":
        # Magnitudes below 2; any sign.
        return (rng.integers(0, 0x40, dims) | rng.integers(0, 2, dims) << 7).astype(np.uint8)
    values = rng.standard_normal(dims).astype(np.float32) * 0.3
    return bf16(values) if element == "bf16" else values


def write_case(folder, aliases, kernel, arguments, indices):
    """Writes program.mlir, args.json and the tensors of one kernel."""
    rng = np.random.default_rng(1)
    with open(f"{folder}/program.mlir", "w") as file:
        file.write("".join(f"{name} = {type}\n" for name, type in aliases.items()) + kernel)
    stored = set(re.findall(r"flamia\.store\w* %\w+, %(\w+)\[", kernel))
    values = {}
    for name, type in re.findall(r"%(\w+): (![a-z0-9_]+|memref<[^>]*>|\w+)", arguments):
        type = aliases.get(type, type)
        if type == "index":
            values[name] = indices.get(name, 3)
            continue
        *dims, element = re.fullmatch(r"memref<(.*)>", type).group(1).split("x")
        if dims[-1] == "512":
            dims = [4 if d == "?" else int(d) for d in dims]
        else:
            dims = [ROWS if d == "?" else int(d) for d in dims]
        np.save(f"{folder}/{name}.npy", tensor(rng, dims, element))
        values[name] = {"buffer": f"{name}.npy"}
        if name in stored:
            values[name]["output"] = f"{name}_out.npy"
    with open(f"{folder}/args.json", "w") as file:
        json.dump({"args": values}, file)


def main():
    path = sys.argv[1]
    indices = {k: int(v) for k, v in (a.split("=") for a in sys.argv[2:] if re.fullmatch(r"\w+=\d+", a))}
    options = compare.parse_options([a for a in sys.argv[2:] if a.startswith("-")])
    with open(path) as file:
        text = file.read()
    aliases = dict(re.findall(r"^(![a-z0-9_]+) = (.*)$", text, re.M))
    failures = 0
    for match in re.finditer(r"^flamia\.kernel @(\w+)\((.*?)\)\s*parameters.*?^}\n", text, re.S | re.M):
        name, arguments = match.groups()
        with tempfile.TemporaryDirectory() as folder:
            write_case(folder, aliases, match.group(0), arguments, indices)
            try:
                worst = compare.compare(f"{folder}/program.mlir", f"{folder}/args.json", options)
                print(f"{name}: ok, {worst:.2g}", flush=True)
            except compare.Mismatch as mismatch:
                failures += 1
                print(f"{name}: FAILED: {mismatch}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
