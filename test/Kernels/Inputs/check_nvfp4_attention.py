"""Compares flamia-eval on attention_fwd with format=nvfp4 with numpy: scores, softmax and O, as
docs/numerics.md has them, in float64 with the roundings of P and of the diagonal's operands.

    check_nvfp4_attention.py KERNELS DIR D CAUSAL      DIR as written by make_case.py
"""
import json
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import nvfp4
from random_program import bf16


def widen(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def operand(folder, name, items, g):
    values = nvfp4.decode(np.load(f"{folder}/{name}_fp4.npy"))
    scales = nvfp4.scales_of_tokens(np.load(f"{folder}/{name}_fp4_scale.npy"), items, values.shape[0])
    return values * np.repeat(nvfp4.e4m3(scales), 16, axis=-1) * g


def values_of_tokens(folder, items):
    """V from its payload and its scales of 32 x 32 along tokens, one kv head."""
    v = nvfp4.e4m3(np.load(f"{folder}/v_data.npy"))
    scales = np.load(f"{folder}/v_scale.npy")
    channel = np.arange(v.shape[2])
    for begin, end, tile, base in items:
        for row in range(min(128, end - begin - 128 * tile)):
            bytes_ = scales[base + tile, 0, nvfp4.place(channel, row // 32)]
            v[begin + 128 * tile + row, 0] *= 2.0 ** (bytes_.astype(np.float64) - 127)
    return v


def attention(q, k, v, original, c, causal):
    """O of one document and head."""
    n = len(q)
    o = np.zeros_like(v)
    for first in range(0, n, 128):
        rows = slice(first, min(n, first + 128))
        x = q[rows] @ k.T * c
        if causal:
            x = np.where(np.arange(n) <= np.arange(n)[rows, None], x, -np.inf)
        p = np.exp2(x - np.ceil(x.max(axis=1, keepdims=True)) + 8)
        diagonal = np.zeros(n, bool)
        diagonal[rows] = causal
        rounded = widen(bf16(p.astype(np.float32)))
        weights = np.where(diagonal, rounded, nvfp4.round_e4m3(p))
        total = np.where(diagonal, rounded, p).sum(axis=1, keepdims=True)
        o[rows] = weights @ np.where(diagonal[:, None], original, v) / total
    return o


def main():
    kernels, folder, dim, causal = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4]
    with open(f"{folder}/args.json") as file:
        args = json.load(file)["args"]
    subprocess.run(["flamia-eval", f"{kernels}/attention_fwd.mlir", "--launch", f"{folder}/args.json", "-D", "format=nvfp4",
                    "-D", f"head_dim={dim}", "-D", f"causal={causal}"], check=True)
    got = widen(np.load(f"{folder}/{args['o']['output']}"))
    items = np.load(f"{folder}/work.npy")
    q = operand(folder, "q", items, args["q_global_scale"])
    k = operand(folder, "k", items, args["k_global_scale"])
    v, original = values_of_tokens(folder, items), widen(np.load(f"{folder}/v_bf16.npy"))
    c = args["softmax_scale"] * np.log2(np.e)
    want = np.zeros_like(got)
    for begin, end in {(int(item[0]), int(item[1])) for item in items}:
        part = slice(begin, end)
        for head in range(q.shape[1]):
            want[part, head] = attention(q[part, head], k[part, 0], v[part, 0], original[part, 0], c, causal == "true")
    # Both are rounded to BF16 and differ where a last bit of fp32 decides.
    want = widen(bf16(want.astype(np.float32)))
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    print(f"relative error {error:.3g}")
    return 0 if error < 5e-4 else 1


sys.exit(main())
