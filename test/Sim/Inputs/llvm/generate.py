#!/usr/bin/env python3
"""Rebuilds the .ptx files and the expected outputs of this folder.

usage: generate.py          (needs clang 22 with the NVPTX back end, and a host C compiler)

Each .c file is compiled twice: by clang for sm_100a to NAME.ptx, and by the host's compiler to a program whose output,
NAME_expected.npy, is what the simulator has to give. The two share the C source only.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["calls", "integers", "floats", "memory"]
PROGRAMS = [n + s for n in NAMES for s in ("", "_O0")]


def inputs():
    """Words of all sizes, some with few bits."""
    rng = np.random.default_rng(3)
    words = rng.integers(0, 1 << 63, 64, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    words[::5] &= np.uint64(0xFFFF)
    words[3::7] |= np.uint64(0xFFFFFFFF00000000)
    return words


def main():
    host = os.environ.get("CC", "gcc")
    words = inputs()
    for name in NAMES:
        source = os.path.join(HERE, name + ".c")
        for suffix, flags in (("", ["-O2"]), ("_O0", ["-O0"])):
            text = subprocess.run(["clang-22", "--target=nvptx64-nvidia-cuda", "-S", "-o", "-", "-nogpulib", "-ffp-contract=off", "-march=sm_100a",
                                   "-Xclang", "-target-feature", "-Xclang", "+ptx88", *flags, source],
                                  check=True, capture_output=True, text=True).stdout
            lines = [l for l in text.splitlines() if l.strip() and not l.strip().startswith("//")]
            with open(os.path.join(HERE, name + suffix + ".ptx"), "w") as f:
                f.write("\n".join(lines) + "\n")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, name)
            subprocess.run([host, "-O1", "-ffp-contract=off", "-w", source, "-o", program, "-lm"], check=True)
            out = subprocess.run([program], input=words.tobytes(), check=True, capture_output=True).stdout
        np.save(os.path.join(HERE, name + "_expected.npy"), np.frombuffer(out, np.uint64))


if __name__ == "__main__":
    sys.exit(main())
