#!/usr/bin/env python3
"""Runs flamia-sim on case folders written by make_cases.py, one line each, exit 1 if any fails.

usage: run_cases.py DIR [--sim PATH] [--async MODE,MODE,...] [--checks LIST] [--skip NAME,...] [NAME...]
"""
import argparse
import os
import subprocess
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sim", default="flamia-sim")
    parser.add_argument("--async", dest="modes", default="")
    parser.add_argument("--checks", default="all,proxy")
    parser.add_argument("--skip", default="")
    parser.add_argument("--timeout", type=float, default=300)
    args = parser.parse_intermixed_args()
    names = args.names or sorted(n for n in os.listdir(args.dir) if os.path.exists(os.path.join(args.dir, n, "launch.json")))
    skipped = set(filter(None, args.skip.split(",")))
    unknown = skipped - set(names)
    if unknown or not names:
        sys.exit("no such case: " + " ".join(sorted(unknown) or [args.dir]))
    failed = []
    for name in names:
        if name in skipped:
            continue
        for mode in args.modes.split(","):
            command = [args.sim, "--launch", os.path.join(args.dir, name, "launch.json")]
            command += ["--checks=" + args.checks] + (["--async=" + mode] if mode else [])
            start = time.time()
            try:
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=args.timeout)
                code, output = done.returncode, done.stdout
            except subprocess.TimeoutExpired:
                code, output = 1, f"no end within {args.timeout} s"
            label = f"{name} {mode}".strip()
            print(f"{'pass' if code == 0 else 'FAIL'} {label} ({time.time() - start:.2f} s)", flush=True)
            if code:
                failed.append(label)
                print("\n".join("    " + line[:240] for line in output.splitlines()[:12]), flush=True)
    if failed:
        sys.exit(f"{len(failed)} failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
