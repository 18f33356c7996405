"""Runs a tile program three ways and compares: evaluator, -O0 and -O2 on the simulator.

    compare.py PROGRAM.mlir ARGS.json [-D name=value ...] [--kernel=NAME] [--tolerance=X]
               [--arch=A] [--sim-option=OPT ...]
    compare.py --random FIRST LAST [--nvfp4] [options]
                                  programs of random_program.py or random_nvfp4.py, by seed

ARGS.json holds the arguments by name, as launch.json does, without a record. -O0 and -O2
must agree bit for bit, and with the evaluator to a relative Frobenius error (and each
output of the evaluator must hold finite numbers). Exit code 1 on any difference.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Mismatch(Exception):
    pass


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise Mismatch(f"{' '.join(command)}\nexit code {result.returncode}\n{result.stderr}{result.stdout}"[:3000])


def launch(args, source, folder, name, extra):
    """Writes a launch.json whose outputs are NAME.*.npy; returns its path and them."""
    outputs = {}
    arguments = {}
    for arg, value in args.items():
        if isinstance(value, dict):
            value = dict(value, buffer=os.path.join(source, value["buffer"]))
            if "output" in value:
                outputs[arg] = value["output"] = os.path.join(folder, f"{name}.{arg}.npy")
        arguments[arg] = value
    path = os.path.join(folder, f"{name}.json")
    with open(path, "w") as file:
        json.dump(dict(extra, args=arguments), file)
    return path, outputs


def values(path):
    array = np.load(path)
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def compare(program, args_path, options):
    with open(args_path) as file:
        description = json.load(file)
    kernel = options.kernel or description.get("kernel")
    source = os.path.dirname(os.path.abspath(args_path))
    defines = [part for d in options.define for part in ("-D", d)]
    with tempfile.TemporaryDirectory() as folder:
        path, expected = launch(description["args"], source, folder, "eval", {})
        run(["flamia-eval", program, "--launch", path] + defines + ([f"--kernel={kernel}"] if kernel else []))
        results = {}
        for level in ("O0", "O2"):
            code = os.path.join(folder, level) + "/"
            os.mkdir(code)
            run(["flamiac", program, f"-arch={options.arch}", f"-{level}", "-o", code] + defines)
            records = [f for f in os.listdir(code) if f.endswith(".json")]
            record = f"{kernel}.json" if kernel and f"{kernel}.json" in records else records[0]
            path, results[level] = launch(description["args"], source, folder, level,
                                          {"record": os.path.join(code, record)})
            run(["flamia-sim", "--launch", path] + options.sim_option)
        worst = 0.0
        for arg in expected:
            plain, fast = np.load(results["O0"][arg]), np.load(results["O2"][arg])
            if plain.tobytes() != fast.tobytes():
                count = int((plain.view(np.uint8) != fast.view(np.uint8)).sum())
                raise Mismatch(f"'{arg}': -O0 and -O2 differ in {count} bytes")
            if fast.dtype == np.uint8:
                count = int((np.load(expected[arg]) != fast).sum())
                if count:
                    raise Mismatch(f"'{arg}': {count} bytes differ from the evaluator's")
                continue
            want, got = values(expected[arg]), values(results["O2"][arg])
            finite = np.isfinite(want)
            # Elements that nothing wrote keep their poison in all three.
            if not np.array_equal(finite, np.isfinite(got)):
                raise Mismatch(f"'{arg}': the evaluator and -O2 disagree on which elements are finite")
            if not finite.any():
                raise Mismatch(f"'{arg}': no element is finite")
            norm = np.linalg.norm(want[finite])
            error = np.linalg.norm((got - want)[finite]) / norm if norm else np.linalg.norm(got[finite])
            if not error <= options.tolerance:
                raise Mismatch(f"'{arg}': relative error {error:.3g} against the evaluator exceeds {options.tolerance}")
            worst = max(worst, error)
        return worst


def parse_options(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*")
    parser.add_argument("--random", nargs=2, type=int, metavar=("FIRST", "LAST"))
    parser.add_argument("--nvfp4", action="store_true")
    parser.add_argument("-D", dest="define", action="append", default=[])
    parser.add_argument("--kernel")
    parser.add_argument("--arch", default="sm_100a")
    parser.add_argument("--tolerance", type=float, default=5e-3)
    parser.add_argument("--sim-option", action="append", default=[])
    return parser.parse_args(arguments)


def main():
    options = parse_options()
    failures = 0
    if options.random:
        from random_nvfp4 import Nvfp4Program
        from random_program import Program
        kind = Nvfp4Program if options.nvfp4 else Program
        first, last = options.random
        for seed in range(first, last + 1):
            with tempfile.TemporaryDirectory() as folder:
                kind(seed).build().write(folder)
                try:
                    worst = compare(f"{folder}/program.mlir", f"{folder}/args.json", options)
                    print(f"seed {seed}: ok, {worst:.2g}", flush=True)
                except Mismatch as mismatch:
                    failures += 1
                    print(f"seed {seed}: FAILED: {mismatch}", flush=True)
        print(f"{last - first + 1 - failures} of {last - first + 1} programs agree")
    else:
        try:
            worst = compare(options.files[0], options.files[1], options)
            print(f"agree, {worst:.2g} from the evaluator")
        except Mismatch as mismatch:
            failures += 1
            print(f"FAILED: {mismatch}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
