#!/usr/bin/env python3
"""Rebuilds the .ptx files and manifest.json of this folder with Triton.

usage: generate.py [--out DIR] [--arch 90] [NAME...]     (needs Triton, no GPU)

Triton compiles our own small kernels (kernels_matmul.py, kernels_attention.py,
kernels_vector.py, kernels_gluon.py) for Blackwell on any machine. The result is
PTX that no line of flamia's compiler took part in, so running it in the
simulator is an independent check of both. manifest.json keeps what the PTX text
does not say (shared memory, scratch, geometry of tensor maps), so that
make_cases.py and the tests need no Triton.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

HERE = os.path.dirname(os.path.abspath(__file__))
PTXAS = os.environ.get("FLAMIA_PTXAS", "/usr/local/cuda/bin/ptxas")
# CUtensorMapDataType by number.
TMA_TYPES = ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz",
             "tf32", "tf32_ftz", "16u4_align8b", "16u4_align16b", "16u6_align16b"]
# Triton's device-side numbering differs from CUDA's for 8, 9 and 10.
TMA_RENUMBER = {8: 10, 9: 8, 10: 9}
SWIZZLES = ["none", "32B", "64B", "128B"]


class Kernel:
    """One PTX file: a kernel, the types of its arguments and its constants.

    `types` maps argument names to Triton types; arguments in `aligned` are
    multiples of 16 (all pointers are). `raw` leaves late waits as they are.
    """

    def __init__(self, name, fn, types, constants=None, aligned=(), arch=100, gluon=False, raw=False, **options):
        self.name, self.fn, self.types, self.constants, self.raw = name, fn, types, constants or {}, raw
        self.aligned, self.arch, self.gluon, self.options = aligned, arch, gluon, options

    def compile(self):
        names = self.fn.arg_names
        signature = {n: "constexpr" if n in self.constants else self.types[n] for n in names}
        attrs = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names)
                 if signature[n].startswith("*") or n in self.aligned}
        source = (GluonASTSource if self.gluon else ASTSource)(self.fn, signature, self.constants, attrs)
        # PTX 8.8 is the lowest with sm_103a; 9.0 is the newest that ptxas of CUDA 13.0 takes.
        options = {"ptx_version": 88, "enable_fp_fusion": True, **self.options}
        return triton.compile(source, target=GPUTarget("cuda", self.arch, 32), options=options)


def strip(ptx):
    """Removes debug sections, comments (Triton marks inline code with them) and blank lines."""
    ptx = re.sub(r"^\s*\.section[^{]*\{.*?^\s*\}", "", ptx, flags=re.M | re.S)
    ptx = re.sub(r"[ \t]*//[^\n]*", "", ptx)
    drop = re.compile(r"^\s*(\.loc\b.*|\.file\b.*|\$L__(tmp|func_begin|func_end)\d+:|)$")
    return "\n".join(l.rstrip() for l in ptx.split("\n") if not drop.match(l)) + "\n"


def settle(ptx):
    """Moves `tcgen05.wait::ld` up to before the first use of what the load loads.

    LLVM sinks Triton's wait below arithmetic on the loaded registers. ptxas lets
    that work (it tracks the registers), but PTX wants the wait first, and the
    simulator insists on it. This is the only change made to Triton's code.
    """
    lines = ptx.split("\n")
    after, drop = set(), set()
    for load in (i for i, l in enumerate(lines) if "tcgen05.ld" in l):
        loaded = re.search(r"\{([^}]*)\}", lines[load]).group(1).split(", ")
        used = re.compile("(?:" + "|".join(re.escape(r) for r in loaded) + r")(?!\w)")
        uses = straight = True  # straight: the wait is in the load's basic block
        for i in range(load + 1, len(lines)):
            if "tcgen05.ld" in lines[i]:
                straight = False
            if re.match(r"\s*\$?\w+:|.*\bbra\b", lines[i]):
                straight = False
            if "tcgen05.wait::ld" in lines[i]:
                uses = any(used.search(l) for l in lines[load + 1:i])
                break
        if uses:
            after.add(load)
            if straight:
                drop.add(i)
    out = []
    for i, line in enumerate(lines):
        if i not in drop:
            out.append(line)
        if i in after:
            out.append("\ttcgen05.wait::ld.sync.aligned;")
    return "\n".join(out), bool(after)


def describe(meta):
    """A tensor map as make_cases.py needs it: box innermost first."""
    number = TMA_RENUMBER.get(meta["elem_type"], meta["elem_type"])
    return dict(type=TMA_TYPES[number], box=list(reversed(meta["block_size"])), swizzle=SWIZZLES[meta["swizzle"]])


def build(kernel, out):
    compiled = kernel.compile()
    ptx, settled = settle(strip(compiled.asm["ptx"]))
    if kernel.raw:
        ptx = strip(compiled.asm["ptx"])
    path = os.path.join(out, kernel.name + ".ptx")
    with open(path, "w") as f:
        f.write(ptx)
    subprocess.run([PTXAS, f"-arch=sm_{kernel.arch}a", path, "-o", "/dev/null"], check=True)
    meta = compiled.metadata
    threads = int(re.search(r"\.(?:reqntid|maxntid)\s+(\d+)", ptx).group(1))
    header = re.search(r"\.visible \.entry \w+\(([^)]*)\)", ptx).group(1)
    entry = dict(ptx=kernel.name + ".ptx", entry=meta.name, block=[threads, 1, 1],
                 cluster=[meta.num_ctas, 1, 1], dynamic_smem=meta.shared,
                 scratch=meta.global_scratch_size, params=header.count(".param"),
                 tensor_maps=[describe(d) for d in (meta.tensordesc_meta or [])])
    print(f"{kernel.name}: {len(ptx)} bytes, {threads} threads, {meta.shared} bytes shared, {meta.tmem_size} columns"
          + (", wait::ld moved" if settled else ""))
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=HERE)
    parser.add_argument("--arch", type=int, help="another architecture than the table's, to run on an older GPU")
    parser.add_argument("names", nargs="*")
    args = parser.parse_intermixed_args()
    os.makedirs(args.out, exist_ok=True)
    sys.path.insert(0, HERE)
    table = []
    for module in ("kernels_matmul", "kernels_attention", "kernels_vector", "kernels_gluon"):
        if os.path.exists(os.path.join(HERE, module + ".py")):
            table += __import__(module).kernels(Kernel)
    path = os.path.join(args.out, "manifest.json")
    manifest = json.load(open(path)) if os.path.exists(path) else {}
    failed = []
    for kernel in table:
        if args.names and kernel.name not in args.names:
            continue
        kernel.arch = args.arch or kernel.arch
        try:
            manifest[kernel.name] = build(kernel, args.out)
        except Exception as error:
            failed.append(kernel.name)
            print(f"{kernel.name}: {type(error).__name__}: {error}"[:2000], file=sys.stderr)
    known = {k.name for k in table}
    with open(path, "w") as f:
        rows = [f" {json.dumps(n)}: {json.dumps(e)}" for n, e in sorted(manifest.items()) if n in known]
        f.write("{\n" + ",\n".join(rows) + "\n}\n")
    if failed:
        sys.exit("failed: " + " ".join(failed))


if __name__ == "__main__":
    main()
