#!/usr/bin/env python3
"""Runs the programs of this folder in flamia-sim and compares every bit with what the host computed.

usage: run.py DIR [NAME...]
"""
import json
import os
import shutil
import subprocess
import sys

import numpy as np

from generate import HERE, PROGRAMS, inputs

THREADS = 64


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    np.save(os.path.join(folder, "in.npy"), inputs())
    failed = False
    for name in sys.argv[2:] or PROGRAMS:
        expected = np.load(os.path.join(HERE, name.removesuffix("_O0") + "_expected.npy"))
        shutil.copy(os.path.join(HERE, name + ".ptx"), folder)
        np.save(os.path.join(folder, name + ".npy"), np.full(len(expected), 0xDEADBEEFDEADBEEF, np.uint64))
        launch = {"ptx": name + ".ptx", "entry": "k", "grid": [1, 1, 1], "block": [THREADS, 1, 1], "cluster": [1, 1, 1], "dynamic_smem": 0,
                  "params": [{"buffer": "in.npy"}, {"buffer": name + ".npy", "output": name + "_out.npy", "access": "write"}], "expect": []}
        path = os.path.join(folder, name + ".json")
        with open(path, "w") as f:
            json.dump(launch, f)
        run = subprocess.run(["flamia-sim", "--launch", path], capture_output=True, text=True)
        if run.returncode:
            print(f"{name}: {run.stderr.strip()}")
            failed = True
            continue
        got = np.load(os.path.join(folder, name + "_out.npy"))
        words = len(expected) // THREADS
        for i in np.flatnonzero(got != expected)[:4]:
            print(f"{name}: thread {i // words}, word {i % words}: {int(got[i]):#x}, expected {int(expected[i]):#x}")
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
