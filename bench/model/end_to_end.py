#!/usr/bin/env python3
"""Modelled forward and backward, quantization included, on 12 packed workloads.

usage: end_to_end.py --bin BUILD/bin [--kernels DIR] [--out FILE.md]

Compiles the kernels for both architectures (or takes DIR/sm_100a and DIR/sm_103a), asks
flamia-model for every workload and writes the table. Nothing is measured: docs/model.md says what
the figures mean. Heads 64/8, D = 128, causal; about 131072 tokens each.
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOKENS = 131072


def drawn(next_length):
    """Lengths from a distribution until the tokens are used up."""
    lengths, left = [], TOKENS
    while left > 0:
        lengths.append(min(left, max(1, int(next_length()))))
        left -= lengths[-1]
    return lengths


def workloads():
    source = random.Random(6)
    log_normal = lambda mean: drawn(lambda: source.lognormvariate(math.log(mean) - 0.5, 1.0))
    zipf = [max(16, 32768 // rank) for rank in range(1, 200)]
    table = [("all 512", [512] * 256), ("all 1024", [1024] * 128), ("all 2048", [2048] * 64),
             ("all 4096", [4096] * 32), ("all 8192", [8192] * 16), ("all 16384", [16384] * 8),
             ("all 32768", [32768] * 4), ("log-normal, mean 2k, sigma 1", log_normal(2048)),
             ("log-normal, mean 8k, sigma 1", log_normal(8192)), ("1 x 64k + 1000 x 64", [65536] + [64] * 1000),
             ("Zipf from 32k", zipf), ("4096 of 1 to 31", [source.randint(1, 31) for _ in range(4096)])]
    return [dict(name=name, docs=docs, heads=64, kv_heads=8, head_dim=128) for name, docs in table]


def compile_kernels(bin_folder, out):
    kernels = os.path.join(ROOT, "kernels")
    for arch in ("sm_100a", "sm_103a"):
        for source in ("attention_bwd_dkdv", "attention_bwd_dq", "attention_bwd_prep", "attention_fwd", "quantize"):
            slots = ["-D", "slots=2"] if source == "attention_fwd" else []  # as the runtime chooses for 64/8
            subprocess.run([os.path.join(bin_folder, "flamiac"), os.path.join(kernels, source + ".mlir"), f"-arch={arch}",
                            *slots, "-o", os.path.join(out, arch) + "/"], check=True, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--kernels")
    parser.add_argument("--out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kernels = args.kernels
        if not kernels:
            kernels = folder
            compile_kernels(args.bin, folder)
        problem = os.path.join(folder, "workloads.json")
        with open(problem, "w") as f:
            json.dump(workloads(), f)
        result = subprocess.run([os.path.join(args.bin, "flamia-model"), f"--workloads={problem}", f"--kernels={kernels}"],
                                capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr)
    text = result.stdout
    if args.out:
        with open(args.out, "w") as f:
            f.write("<!-- written by bench/model/end_to_end.py -->\n" + text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
