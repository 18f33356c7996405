"""Compares the backward's kernels three ways (compare.py), each on what the evaluator makes of
the ones before it.

    compare_backward.py KERNELS D CAUSAL [LENGTH,LENGTH...] [--format=nvfp4] [options of compare.py]

KERNELS is the folder of the .mlir files. Two query heads share one kv head. m and l are those
of the operands; O and the rest is random. With nvfp4 the E2M1 operands are made of the E4M3 ones.
"""
import json
import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare
import nvfp4
from random_program import bf16

HEADS, KV_HEADS = 2, 1
SCALE = 0.05
GLOBAL_SCALE = 0.125
rng = np.random.default_rng(7)


def payload(*shape):
    magnitude = rng.integers(0x20, 0x42, shape, np.uint8)
    return magnitude | (rng.integers(0, 2, shape, np.uint8) << 7)


def decode(bytes_):
    exponent, mantissa = (bytes_ >> 3) & 15, bytes_ & 7
    value = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0**(exponent.astype(int) - 10))
    return np.where(bytes_ & 0x80, -value, value)


def atom(byte_of):
    """One 128x4 atom of byte_of(row, block)."""
    result = np.zeros(512, np.uint8)
    for r in range(128):
        for j in range(4):
            result[r % 32 * 16 + r // 32 * 4 + j] = byte_of(r, j)
    return result


def inputs(lengths, dim, causal, is_nvfp4):
    items, begin, base = [], 0, 0
    for length in lengths:
        tiles = -(-length // 128)
        items += [(begin, begin + length, tile, base) for tile in range(tiles)]
        begin, base = begin + length, base + tiles
    tokens, tiles = begin, base
    blocks = dim // 32

    def token_scales(heads, low, high):
        exponents = rng.integers(low, high, (tokens, heads))
        atoms = np.full((tiles, heads, 512), 127, np.uint8)
        for first, last, tile, base in items:
            for head in range(heads):
                rows = exponents[first + 128 * tile:min(last, first + 128 * tile + 128), head]
                atoms[base + tile, head] = atom(lambda r, j: 127 + rows[r] if r < len(rows) and j < blocks else 127)
        return exponents, atoms

    args = {"q_data": payload(tokens, HEADS, dim), "k_data": payload(tokens, KV_HEADS, dim),
            "v_data": payload(tokens, KV_HEADS, dim), "work": np.array(items, np.int32), "softmax_scale": SCALE}
    eq, args["q_scale"] = token_scales(HEADS, -4, 0)
    ek, args["k_scale"] = token_scales(KV_HEADS, -4, 0)
    args["v_scale"] = np.full((tiles, KV_HEADS, 512), 127, np.uint8)
    for tile in range(tiles):
        bytes_ = rng.integers(123, 127, (4, 4))
        args["v_scale"][tile, 0] = atom(lambda r, j: bytes_[r // 32, j] if j < blocks else 127)
    for name, heads, size in (("v_bf16", KV_HEADS, 1.0), ("o", HEADS, 0.5), ("do", HEADS, 0.3)):
        args[name] = bf16(size * rng.standard_normal((tokens, heads, dim)).astype(np.float32))
    args["m"], args["l"] = np.zeros((2, tokens, HEADS), np.float32)
    q, k = decode(args["q_data"]) * 2.0**eq[..., None], decode(args["k_data"]) * 2.0**ek[..., None]
    if is_nvfp4:
        def quantized(name, values):
            packed, scales = nvfp4.quantize(values, GLOBAL_SCALE)
            args[f"{name}_fp4"], args[f"{name}_fp4_scale"] = packed, nvfp4.token_atoms(scales, items, tiles)
            args[f"{name}_global_scale"] = GLOBAL_SCALE
            return nvfp4.decode(packed) * np.repeat(nvfp4.e4m3(scales), 16, axis=-1) * GLOBAL_SCALE
        q, k = quantized("q", q), quantized("k", k)
    begin = 0
    for length in lengths:
        for head in range(HEADS):
            part = slice(begin, begin + length)
            x = q[part, head] @ k[part, 0].T * (SCALE * np.log2(np.e))
            if causal:
                x = np.where(np.tri(length, dtype=bool), x, -np.inf)
            args["m"][part, head] = m = np.ceil(x.max(axis=1))
            args["l"][part, head] = np.exp2(x - m[:, None]).sum(axis=1)
        begin += length
    args["kappa"] = (1 + 0.01 * rng.standard_normal((tokens, HEADS))).astype(np.float32)
    args["dlse"] = (0.1 * rng.standard_normal((tokens, HEADS))).astype(np.float32)
    nan = np.float32(np.nan)
    outputs = {"do_data": np.full((tokens, HEADS, dim), 0xFF, np.uint8)}
    for name in ("r", "d_past", "d_diagonal"):
        outputs[name] = np.full((tokens, HEADS), nan)
    for name in ("do_scale", "do_scale_hat", "do_block_scale", "q_block_scale"):
        outputs[name] = np.full((tiles, HEADS, 512), 0xFF, np.uint8)
    for name in ("bias", "bias_hat", "d_past_hat", "d_diagonal_hat", "r_hat", "r_unit"):
        outputs[name] = np.full((tiles, HEADS, 128), nan)
    for name in ("v_scale_hat", "k_block_scale"):
        outputs[name] = np.full((tiles, KV_HEADS, 512), 0xFF, np.uint8)
    for name in ("k_factor", "k_factor_diagonal"):
        outputs[name] = np.full((tiles, KV_HEADS, 128), nan)
    for name, heads in (("dq", HEADS), ("dk", KV_HEADS), ("dv", KV_HEADS)):
        outputs[name] = np.full((tokens, heads, dim), 0x7FC1, np.uint16)
    return args, outputs


STEPS = [
    ("attention_bwd_prep", "attention_bwd_prep", "q_scale o do m l kappa dlse work",
     "do_data do_scale do_scale_hat do_block_scale q_block_scale r d_past d_diagonal bias bias_hat d_past_hat "
     "d_diagonal_hat r_hat r_unit"),
    ("attention_bwd_prep", "attention_bwd_prep_keys", "k_scale v_scale work", "v_scale_hat k_block_scale k_factor k_factor_diagonal"),
    ("attention_bwd_dq", "attention_bwd_dq", "q_data q_scale k_data k_scale v_data v_scale v_bf16 do_data do_scale do r m d_past "
     "d_diagonal v_scale_hat k_factor k_factor_diagonal k_block_scale work softmax_scale", "dq"),
    ("attention_bwd_dkdv", "attention_bwd_dkdv", "q_data q_scale k_data k_scale v_data v_scale v_bf16 do_data do_scale do r m d_past "
     "d_diagonal do_scale_hat do_block_scale q_block_scale bias bias_hat d_past_hat d_diagonal_hat r_hat r_unit work softmax_scale",
     "dk dv"),
]


def main():
    folder_of_kernels, dim, causal = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "true"
    lengths = [int(n) for n in sys.argv[4].split(",")] if len(sys.argv) > 4 and sys.argv[4][0].isdigit() else [300, 31, 1]
    is_nvfp4 = "--format=nvfp4" in sys.argv
    extra = [a for a in sys.argv[4:] if a.startswith("-") and not a.startswith("--format")]
    args, outputs = inputs(lengths, dim, causal, is_nvfp4)
    with tempfile.TemporaryDirectory() as folder:
        described = {}
        for name, value in list(args.items()) + list(outputs.items()):
            described[name] = value
            if isinstance(value, np.ndarray):
                np.save(f"{folder}/{name}.npy", value)
                described[name] = {"buffer": f"{name}.npy"}
        failures = 0
        for file, kernel, reads, writes in STEPS:
            parameters = ["-D", f"head_dim={dim}"]
            if "prep" not in kernel:
                parameters += ["-D", f"causal={'true' if causal else 'false'}"]
                if is_nvfp4:
                    parameters += ["-D", "format=nvfp4"]
                    reads += " q_fp4 q_fp4_scale k_fp4 k_fp4_scale q_global_scale k_global_scale"
            elif kernel == "attention_bwd_prep":
                parameters += ["-D", f"dlse={'true' if causal else 'false'}"]
            chosen = {name: described[name] for name in reads.split()}
            chosen.update({name: dict(described[name], output="out.npy") for name in writes.split()})
            with open(f"{folder}/{kernel}.json", "w") as handle:
                json.dump({"args": chosen}, handle)
            program = f"{folder_of_kernels}/{file}.mlir"
            options = compare.parse_options(parameters + [f"--kernel={kernel}"] + extra)
            try:
                print(f"{kernel}: ok, {compare.compare(program, f'{folder}/{kernel}.json', options):.2g}", flush=True)
            except compare.Mismatch as mismatch:
                failures += 1
                print(f"{kernel}: FAILED: {mismatch}", flush=True)
            # The evaluator's results are the next kernels' inputs.
            path, results = compare.launch(chosen, folder, folder, f"{kernel}.eval", {})
            compare.run(["flamia-eval", program, "--launch", path, f"--kernel={kernel}"] + parameters)
            for name, result in results.items():
                os.replace(result, f"{folder}/{name}.npy")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
