#!/usr/bin/env python3
"""Makes the fuzzers' seed inputs from the tests: DIR/ptx and DIR/files.

usage: make-corpus.py DIR

PTX: the modules that lit tests hold, small files of other compilers, and one small module
for each opcode that large files use (their declarations, the instruction, ret).
Files: launch.json, launch records and .npy files, one kind byte before each (fuzz/Targets.h).
"""
import hashlib
import os
import re
import sys

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test")
LIMIT = 8192
INSTRUCTION = re.compile(r"^\s*(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:[.:][\w:]+)*)\s*[^:]*;\s*$")


def sections(text):
    """The files inside a lit test: (name, text)."""
    parts = re.split(r"^(?://|#|;)--- (\S+)$", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def snippets(text, seen):
    """A small module for each opcode of `text` that is not in `seen`."""
    lines = [line.split("//")[0].rstrip() for line in text.splitlines()]
    try:
        entry = next(i for i, line in enumerate(lines) if ".entry" in line)
        body = next(i for i in range(entry, len(lines)) if lines[i].strip() == "{")
    except StopIteration:
        return
    head = [line for line in lines[: body + 1] if line and not line.lstrip().startswith((".file", ".loc"))]
    declarations = [line for line in lines[body + 1 :] if re.match(r"\s*\.(reg|shared|local)\b", line)]
    for line in lines[body + 1 :]:
        found = INSTRUCTION.match(line)
        if not found or found[1] in seen or found[1].startswith(("bra", "ret", "call")):
            continue
        seen.add(found[1])
        yield "\n".join(head + declarations + [line, "\tret;", "}", ""])


def npy_seeds():
    header = lambda text, version=1: b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text
    for kind in ("<f4", "<f2", "<f8", "|u1", "<u2", "<i4", "<i8", "|b1"):
        yield header(b"{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }" % kind.encode()) + bytes(6 * np.dtype(kind).itemsize)
    yield header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 2) + bytes(4)
    yield header(b"{'descr': '<f4', 'fortran_order': True, 'shape': (0,), }", 3)


LAUNCHES = [
    '{"ptx": "k.ptx", "entry": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "cluster": [1, 1, 1], "dynamic_smem": 64,'
    ' "params": [{"buffer": "x.npy"}, {"buffer": "x.npy", "output": "y.npy", "access": "read_write", "offset": 16}, {"i32": 5}],'
    ' "expect": [{"output": "y.npy", "expected": "e.npy", "relative_frobenius": 1e-5}]}',
    '{"ptx": "k.ptx", "entry": "k", "params": [{"u64": "0xffffffffffffffff"}, {"buffer": "h.npy", "output": "h_out.npy", "dtype": "bf16"}, {"u32": 1}],'
    ' "expect": [{"output": "h_out.npy", "expected": "h.npy", "max_abs": 0.5}]}',
    '{"ptx": "k.ptx", "entry": "m", "params": [{"tensormap": {"buffer": "b.npy", "type": "u8", "dims": [16, 16], "strides": [16], "box": [16, 8],'
    ' "element_strides": [1, 1], "swizzle": "128B", "interleave": "none", "oob_fill": "zero", "offset": 0}}]}',
    '{"record": "r.json", "args": {"x": {"buffer": "x.npy"}, "y": {"buffer": "e.npy", "output": "y_out.npy"}, "n": 3},'
    ' "expect": [{"output": "y_out.npy", "expected": "e.npy", "bitwise": true}]}',
    '{"ptx": "k.ptx", "entry": "k", "params": [{"f32": 1}, {"f64": 1e300}, {"i8": -1}, {"u16": 3}]}',
]
RECORDS = [
    '{"flamia_launch_record": 1, "kernel": "a", "entry": "a", "arch": "sm_100a", "numerics": 1, "opt_level": 2, "ptx": "a.ptx", "cubin": "a.cubin",'
    ' "parameters": {"head_dim": 128}, "block": [192, 1, 1], "cluster": [1, 1, 1], "dynamic_smem": 1024, "tmem_columns": 512,'
    ' "grid": [{"arg": "w", "dim": 0, "tile": 1}, {"arg": "q", "dim": 1, "tile": 1}, 1],'
    ' "args": [{"name": "q", "kind": "tensor", "element": "f8E4M3FN", "dims": [null, null, 128], "access": "read"},'
    ' {"name": "w", "kind": "tensor", "element": "i32", "dims": [null, 4], "access": "read_write"},'
    ' {"name": "s", "kind": "scalar", "element": "f32"}],'
    ' "params": [{"pointer": "q"}, {"dim": ["q", 1]}, {"tensormap": "q", "box_rows": 128, "span_bytes": 128, "swizzle": "128B"}, {"scalar": "s"}]}',
    '{"flamia_launch_record": 1, "kernel": "b", "entry": "b", "arch": "sm_90", "numerics": 1, "ptx": "b.ptx", "block": [32, 1, 1], "cluster": [1, 1, 1],'
    ' "grid": [1, 1, 1], "args": [{"name": "x", "kind": "tensor", "element": "bf16", "dims": [4, null], "dim_names": ["rows", "tokens"], "access": "write"}],'
    ' "params": [{"pointer": "x"}, {"dim": ["x", 1]}]}',
]
OPTIONS = ["all,-uninit,-race\n0-7,12", "none\n3", "bounds,alignment,-bounds\n1,2,3-18446744073709551615", "all,odd\n5-1"]


def main():
    folders = {kind: os.path.join(sys.argv[1], kind) for kind in ("ptx", "files")}
    for folder in folders.values():
        os.makedirs(folder, exist_ok=True)

    def put(kind, data):
        with open(os.path.join(folders[kind], hashlib.sha1(data).hexdigest()[:16]), "wb") as f:
            f.write(data)

    seen = set()
    for folder, _, names in sorted(os.walk(ROOT)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".ptx"):
                text = open(path, errors="replace").read()
                if len(text) <= LIMIT:
                    put("ptx", text.encode())
                for snippet in snippets(text, seen):
                    put("ptx", snippet.encode())
            elif name.endswith(".test"):
                for part, text in sections(open(path, errors="replace").read()):
                    if part.endswith(".ptx") and len(text) <= LIMIT:
                        put("ptx", text.encode())
                    elif part.endswith(".json") and len(text) <= LIMIT:
                        put("files", (("r" if "flamia_launch_record" in text else "l") + text).encode())
    for text in LAUNCHES:
        put("files", b"l" + text.encode())
    for text in RECORDS:
        put("files", b"r" + text.encode())
    for text in OPTIONS:
        put("files", b"o" + text.encode())
    for data in npy_seeds():
        put("files", b"n" + data)
    for kind, folder in folders.items():
        print("%s: %d seeds" % (kind, len(os.listdir(folder))))


if __name__ == "__main__":
    main()
