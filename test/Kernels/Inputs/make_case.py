"""Inputs for the library's kernels and examples, for compare.py.

    make_case.py NAME DIR      writes DIR/args.json and *.npy

Documents of awkward lengths, ragged extents; outputs filled with NaN patterns.
"""
import json
import os
import sys

import numpy as np

import nvfp4
from random_program import bf16, scale_atoms

rng = np.random.default_rng(11)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def payload(*shape):
    magnitude = rng.integers(0x20, 0x42, shape, np.uint8)
    return magnitude | (rng.integers(0, 2, shape, np.uint8) << 7)


def poison(dtype, *shape):
    return np.full(shape, np.nan if dtype == np.float32 else {1: 0xFF, 2: 0x7FC1}[np.dtype(dtype).itemsize], dtype)


def work_list(lengths):
    items, begin, base = [], 0, 0
    for length in lengths:
        tiles = -(-length // 128)
        items += [(begin, begin + length, tile, base) for tile in range(tiles)]
        begin, base = begin + length, base + tiles
    return np.array(items, np.int32).reshape(-1, 4), begin, base


def token_scales(lengths, heads, blocks):
    """One byte per token, the same for all its blocks: [scale tiles, heads, 512]."""
    atoms = [scale_atoms(rng, 128, 4, 1, 4) for _ in range(heads * work_list(lengths)[2])]
    return np.concatenate(atoms).reshape(-1, heads, 512)


def block_scales(lengths, heads, dim):
    """Along tokens: one byte per 32 channels and 32 tokens."""
    atoms = [scale_atoms(rng, dim, 4, 32, 1) for _ in range(heads * work_list(lengths)[2])]
    return np.concatenate(atoms).reshape(-1, heads, 512)


def attention(lengths, heads, kv_heads, dim):
    work, tokens, _ = work_list(lengths)
    return {"q_data": payload(tokens, heads, dim), "q_scale": token_scales(lengths, heads, dim // 32),
            "k_data": payload(tokens, kv_heads, dim), "k_scale": token_scales(lengths, kv_heads, dim // 32),
            "v_data": payload(tokens, kv_heads, dim), "v_scale": block_scales(lengths, kv_heads, dim),
            "v_bf16": bf16(normal(tokens, kv_heads, dim)),
            "work": work, "softmax_scale": 0.02, "o": poison(np.float32, tokens, heads, dim)}


def attention_fwd(dim, lengths=(1, 300, 128, 31)):
    args = attention(lengths, 2, 1, dim)
    tokens = args["o"].shape[0]
    args["o"] = poison(np.uint16, tokens, 2, dim)
    for name in ("lse", "m", "l", "kappa"):
        args[name] = poison(np.float32, tokens, 2)
    return args, ["o", "lse", "m", "l", "kappa"]


def attention_fwd_nvfp4(dim):
    """Scores of a few units, as with normal data."""
    args, outputs = attention_fwd(dim)
    items, tokens, tiles = work_list((1, 300, 128, 31))
    for name, heads in (("q", 2), ("k", 1)):
        for unused in ("data", "scale"):
            del args[f"{name}_{unused}"]
        packed, scales = nvfp4.quantize(normal(tokens, heads, dim), 0.125)
        args[f"{name}_fp4"], args[f"{name}_fp4_scale"] = packed, nvfp4.token_atoms(scales, items, tiles)
        args[f"{name}_global_scale"] = 0.125
    args["softmax_scale"] = float(dim) ** -0.5
    return args, outputs


def quantize(lengths=(1, 130, 33), heads=2, dim=64, block=False):
    work, tokens, tiles = work_list(lengths)
    x = normal(tokens, heads, dim)
    x[5] = 0
    x = bf16(x)
    x[9, 1, 3] = 0x7FC0
    args = {"x": x, "work": work, "data": poison(np.uint8, tokens, heads, dim)}
    scales = ["scale_rows", "scale_cols"] if block else ["scale"]
    for name in scales:
        args[name] = poison(np.uint8, tiles, heads, 512)
    return args, ["data"] + scales


def quantize_qkv(lengths=(1, 130, 33), heads=3, kv_heads=1, dim=64, nvfp4=False):
    """Three query heads share one key and value head: two CTAs of a tile have queries only."""
    work, tokens, tiles = work_list(lengths)
    args = {"work": work}
    outputs = []
    for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
        args[name] = bf16(normal(tokens, count, dim))
        args[name + "_data"] = poison(np.uint8, tokens, count, dim)
        outputs.append(name + "_data")
        for scale in ("_scale_rows", "_scale_cols") if name == "v" else ("_scale",):
            args[name + scale] = poison(np.uint8, tiles, count, 512)
            outputs.append(name + scale)
        if nvfp4 and name != "v":
            args[name + "_fp4"] = poison(np.uint8, tokens, count, dim // 2)
            args[name + "_fp4_scale"] = poison(np.uint8, tiles, count, dim // 64, 512)
            args[name + "_global_scale"] = {"q": 0.125, "k": 0.3}[name]
            outputs += [name + "_fp4", name + "_fp4_scale"]
    args["k"][7, 0, 5] = 0x7F80
    args["v"][40, 0, 5] = 0x7FC0
    args["q"][5] = 0
    return args, outputs


def scaled_matmul(m=200, n=144, k=320):
    return {"a": payload(m, k), "a_scale": scale_atoms(rng, m, k // 32, 1, 1),
            "b": payload(n, k), "b_scale": scale_atoms(rng, n, k // 32, 1, 1),
            "bias": normal(n), "out": poison(np.uint16, m, n)}, ["out"]


def nvfp4_atoms(rows, channels):
    """UE4M3 atoms [ceil(rows / 128), ceil(channels / 128), 2, 512] of a matrix; padding 0."""
    blocks = -(-channels // 16)
    atoms = scale_atoms(rng, rows, blocks, 1, 1)
    # Scales from 2^-7 to 15, some of them zero; 127 was padding.
    values = np.where(atoms == 127, 0, rng.integers(1, 0x58, atoms.shape, np.uint8))
    values[rng.random(atoms.shape) < 0.02] = 0
    if atoms.shape[1] % 2:
        values = np.concatenate([values, np.zeros_like(values[:, :1])], axis=1)
    return np.ascontiguousarray(values.reshape(values.shape[0], -1, 2, 512))


def nvfp4_matmul(m=200, n=144, k=320):
    return {"a": rng.integers(0, 256, (m, k // 2), np.uint8), "a_scale": nvfp4_atoms(m, k), "a_global": 0.125,
            "b": rng.integers(0, 256, (n, k // 2), np.uint8), "b_scale": nvfp4_atoms(n, k), "b_global": 0.25,
            "out": poison(np.float32, m, n)}, ["out"]


def attention_bf16(queries=150, keys=300, dim=64):
    return {"q": bf16(normal(queries, 2, dim)), "k": bf16(normal(keys, 2, dim)), "v": bf16(normal(keys, 2, dim)),
            "softmax_scale": 0.125, "o": poison(np.float32, queries, 2, dim)}, ["o"]


def mlp(tokens=140, hidden=384, width=64):
    return {"x": payload(tokens, 128), "x_scale": scale_atoms(rng, tokens, 4, 1, 1),
            "w1": payload(hidden, 128), "w1_scale": scale_atoms(rng, hidden, 4, 1, 1),
            "w2": payload(hidden, width), "w2_scale": np.concatenate([scale_atoms(rng, width, 4, 1, 1) for _ in range(hidden // 128)]),
            "out": poison(np.float32, tokens, width)}, ["out"]


CASES = {
    "attention_fwd_64": lambda: attention_fwd(64),
    "attention_fwd_128": lambda: attention_fwd(128),
    "attention_fwd_nvfp4_64": lambda: attention_fwd_nvfp4(64),
    "attention_fwd_nvfp4_128": lambda: attention_fwd_nvfp4(128),
    "quantize_token_local": lambda: quantize(),
    "quantize_token_block": lambda: quantize(block=True),
    "quantize_qkv": quantize_qkv,
    "quantize_qkv_equal": lambda: quantize_qkv(heads=2, kv_heads=2, dim=128),
    "quantize_qkv_nvfp4": lambda: quantize_qkv(nvfp4=True),
    "quantize_qkv_nvfp4_equal": lambda: quantize_qkv(heads=2, kv_heads=2, dim=128, nvfp4=True),
    "scaled_matmul": scaled_matmul,
    "nvfp4_matmul": nvfp4_matmul,
    "attention_bf16": attention_bf16,
    "attention_window": lambda: (attention((1, 500, 130), 1, 1, 64), ["o"]),
    "mlp": mlp,
    "row_softmax": lambda: ({"x": normal(150, 64), "y": poison(np.float32, 150, 64)}, ["y"]),
}


def main():
    name, folder = sys.argv[1:]
    args, outputs = CASES[name]()
    os.makedirs(folder, exist_ok=True)
    described = {}
    for arg, value in args.items():
        if isinstance(value, np.ndarray):
            np.save(os.path.join(folder, arg + ".npy"), value)
            described[arg] = {"buffer": arg + ".npy"}
            if arg in outputs:
                described[arg]["output"] = arg + ".out.npy"
        else:
            described[arg] = value
    with open(os.path.join(folder, "args.json"), "w") as file:
        json.dump({"args": described}, file, indent=1)


main()
