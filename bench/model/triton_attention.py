#!/usr/bin/env python3
"""The throughput model of Triton's code for attention, beside flamia's, in one run.

usage: triton_attention.py --bin BUILD/bin [--out DIR] [--arch sm_100a]   (needs Triton 3.9 and NumPy, no GPU)

Triton compiles our own BF16 forward (test/Sim/Inputs/peer/kernels_attention.py: tensor maps,
warp specialization, 128 x 128 tiles, D = 128, causal) as it would for that GPU. flamia-model counts it and
flamia's forward the same way: same simulator, same ptxas, same rates. Prints both reports; modelled, not
measured. The only change to Triton's PTX is where tcgen05.wait::ld stands (generate.py, settle).
"""
import argparse
import json
import os
import subprocess
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "Sim", "Inputs", "peer"))
import generate  # noqa: E402
import kernels_attention  # noqa: E402
import make_cases  # noqa: E402


def compile_triton(out, arch, warps, stages):
    desc = "tensordesc<bf16[128,128]>"
    kernel = generate.Kernel(f"triton_w{warps}_s{stages}", kernels_attention.attention_tma,
                             dict(q=desc, k=desc, v=desc, o=desc, T="i32", scale="fp32"),
                             dict(BM=128, BN=128, D=128, CAUSAL=True, WS=True), ["T"],
                             num_warps=warps, num_stages=stages, arch=arch)
    return kernel.name, generate.build(kernel, out)


def write_launch(out, name, entry, tokens):
    case = make_cases.Case(os.path.join(out, str(tokens)), name, {name: entry}, [tokens // 128, 1], out)
    random = np.random.default_rng(1)
    bf16 = lambda: (random.standard_normal((tokens, 128)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    for tensor in "qkv":
        case.tensor(tensor, bf16())
    case.tensor("o", np.zeros((tokens, 128), np.uint16))
    case.i32(tokens)
    case.f32(float(np.log2(np.e) / np.sqrt(128)))
    case.close()
    # The stored result is not compared, but the map's buffer must be writable.
    path = os.path.join(case.dir, "launch.json")
    launch = json.load(open(path))
    maps = [p["tensormap"] for p in launch["params"] if "tensormap" in p]
    maps[3]["output"] = "o_out.npy"
    json.dump(launch, open(path, "w"), indent=1)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", default="triton-model")
    parser.add_argument("--arch", default="sm_100a", choices=["sm_100a", "sm_103a"])
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    model = os.path.join(args.bin, "flamia-model")
    best = None
    for warps, stages in ((4, 2), (8, 2)):
        name, entry = compile_triton(args.out, int(args.arch[3:6]), warps, stages)
        command = [model, f"--ptx={args.out}/{name}.ptx", f"--arch={args.arch}", f"--json={args.out}/{name}.json"]
        for tiles in (6, 12):
            launch = write_launch(args.out, name, entry, 128 * tiles)
            command.append(f"--launch={launch}:{tiles * (tiles + 1) // 2}:{tiles}")
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cycles = json.load(open(f"{args.out}/{name}.json"))[0]["tile_cycles"]
        print(f"Triton {generate.triton.__version__}, {warps} warps, {stages} stages: {cycles:.0f} modelled cycles per tile")
        if best is None or cycles < best[0]:
            best = (cycles, text)
    print(best[1])
    subprocess.run([os.path.join(args.bin, "flamiac"), os.path.join(ROOT, "kernels", "attention_fwd.mlir"),
                    f"-arch={args.arch}", "-D", "slots=2", "-o", args.out + "/"], check=True, stderr=subprocess.DEVNULL)
    text = subprocess.run([model, f"{args.out}/attention_fwd.json", f"--json={args.out}/flamia.json"], check=True,
                          capture_output=True, text=True).stdout
    print(text)
    ours = json.load(open(f"{args.out}/flamia.json"))[0]["tile_cycles"]
    print(f"modelled cycles per 128x128 tile on {args.arch}, causal forward, D = 128: "
          f"Triton BF16 {best[0]:.0f}, flamia MXFP8 {ours:.0f}, ratio {best[0] / ours:.2f}")


if __name__ == "__main__":
    main()
