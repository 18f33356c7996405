#!/usr/bin/env python3
"""Compile time: flamia's kernels against Triton's fused attention, on one machine in one run.

    python3 -m venv peer && peer/bin/pip install triton numpy
    peer/bin/python bench/compile_time.py build/bin/flamiac [--arch=sm_100a] [--runs=3]

Prints tables in Markdown: every kernel of the library in one flamiac run from source to cubin; each
kernel on its own, with flamia's passes, LLVM and ptxas apart (--mlir-timing); and a plain flash
attention in Triton (forward, dQ, dK and dV, BF16), compiled to cubins with a cold cache. Times are the
least of the runs. "CPU" is processor time, children included: on a machine with other work it is the
figure to compare. No GPU is needed.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import time

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "kernels"
STAGES = ("Flamia", "Tcgen", "NVVM", "LLVM", "PTX", "ptxas")


def cpu_seconds():
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def measure(runs, body):
    """The least wall and processor time of several runs, and the last result."""
    wall, cpu, result = [], [], None
    for _ in range(runs):
        start, start_cpu = time.perf_counter(), cpu_seconds()
        result = body()
        wall.append(time.perf_counter() - start)
        cpu.append(cpu_seconds() - start_cpu)
    return min(wall), min(cpu), result


def flamiac(program, *arguments):
    run = subprocess.run([program, *arguments], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{' '.join([program, *arguments])} failed:\n{run.stderr}")
    return run.stderr


def stage_seconds(report):
    """Wall seconds of the stages, from the report's lines at the outermost level."""
    seconds = dict.fromkeys(STAGES, 0.0)
    for line in report.splitlines():
        match = re.match(r"^ +(\d+\.\d+) \( *\d+\.\d+%\)  (\w+)$", line)
        if match and match[2] in seconds:
            seconds[match[2]] += float(match[1])
    return seconds


def compile_library(program, arch, runs):
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu, _ = measure(runs, lambda: flamiac(program, "--library", f"-arch={arch}", "-o", folder))
        index = json.loads((pathlib.Path(folder) / "index.json").read_text())
    print(f"\nThe library for {arch}, {len(index['kernels'])} kernels in one run: {wall:.1f} s, CPU {cpu:.1f} s\n")
    return index["kernels"], cpu


def compile_kernels(program, arch, runs, kernels):
    sources = {}
    for path in SOURCES.glob("*.mlir"):
        for name in re.findall(r"^(?:flamia\.kernel|llvm\.func) @(\w+)", path.read_text(), re.M):
            sources[name] = path
    print("| kernel | parameters | flamia's passes, ms | LLVM and PTX, ms | ptxas, ms | all, wall ms | all, CPU ms |")
    print("|---|---|---|---|---|---|---|")
    passes_most, cpu_of = 0.0, {}
    for kernel in kernels:
        name = kernel["kernel"]
        values = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in kernel["parameters"].items()}
        definitions = [word for k, v in values.items() for word in ("-D", f"{k}={v}")]
        stages = []
        with tempfile.TemporaryDirectory() as folder:
            def once():
                stages.append(stage_seconds(flamiac(
                    program, str(sources[name]), f"-arch={arch}", f"--kernel={name}", *definitions, "-o", folder + "/",
                    "--mlir-timing", "--mlir-timing-display=tree")))
            wall, cpu, _ = measure(runs, once)
        least = {stage: min(run[stage] for run in stages) for stage in STAGES}
        passes = least["Flamia"] + least["Tcgen"] + least["NVVM"]
        passes_most = max(passes_most, passes)
        key = " ".join(f"{k}={v}" for k, v in values.items())
        cpu_of[name, key] = cpu
        print(f"| `{name}` | {key} | {passes * 1e3:.0f} | {(least['LLVM'] + least['PTX']) * 1e3:.0f} | "
              f"{least['ptxas'] * 1e3:.0f} | {wall * 1e3:.0f} | {cpu * 1e3:.0f} |", flush=True)
    print(f"\nThe most that flamia's passes take: {passes_most * 1e3:.0f} ms (goal: 300)\n")
    return cpu_of


POINTERS = {name: "*bf16" for name in ("Q", "K", "V", "O", "dO", "dQ", "dK", "dV")} | {"M": "*fp32", "Delta": "*fp32"}


def compile_triton(arch, runs):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    import triton_attention

    functions = {"forward": triton_attention.forward, "dQ": triton_attention.query_gradient,
                 "dK, dV": triton_attention.key_gradient}
    target = GPUTarget("cuda", {"sm_90": 90, "sm_100a": 100, "sm_103a": 103}[arch], 32)
    print(f"Triton {triton.__version__}, {arch}, 8 warps:\n")
    print("| kernel | head dim | tile | wall ms | CPU ms |\n|---|---|---|---|---|")
    times = {}
    for name, jit in functions.items():
        for dim, columns in ((128, 64), (128, 128), (64, 64), (64, 128)):
            def once():
                folder = tempfile.mkdtemp()
                os.environ["TRITON_CACHE_DIR"] = folder
                signature, constants = {}, {}
                for index, parameter in enumerate(jit.arg_names):
                    value = {"D": dim, "R": 128, "C": columns}.get(parameter)
                    if value is not None:
                        signature[parameter], constants[(index,)] = "constexpr", value
                    else:
                        signature[parameter] = POINTERS.get(parameter, "fp32" if parameter == "scale" else "i32")
                attributes = {(i,): [["tt.divisibility", 16]] for i, p in enumerate(jit.arg_names)
                              if signature[p] != "constexpr" and p != "scale"}
                source = ASTSource(fn=jit, signature=signature, constexprs=constants, attrs=attributes)
                result = triton.compile(source, target=target, options={"num_warps": 8, "num_stages": 2})
                shutil.rmtree(folder)
                assert result.asm["cubin"]
            once_wall, cpu, _ = measure(runs, once)
            times[name, dim, columns] = cpu
            print(f"| {name} | {dim} | 128 x {columns} | {once_wall * 1e3:.0f} | {cpu * 1e3:.0f} |", flush=True)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flamiac")
    parser.add_argument("--arch", default="sm_100a")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    kernels, library_cpu = compile_library(options.flamiac, options.arch, 1)
    ours = compile_kernels(options.flamiac, options.arch, options.runs, kernels)
    theirs = compile_triton(options.arch, options.runs)
    print("\n| kernel | head dim | flamia, CPU ms | / Triton of 128 x 64 tiles | / Triton of 128 x 128 tiles, as ours |\n|---|---|---|---|---|")
    names = {"attention_fwd": "forward", "attention_bwd_dq": "dQ", "attention_bwd_dkdv": "dK, dV"}
    for (name, key), cpu in ours.items():
        if name in names and "causal=true" in key:
            dim = int(re.search(r"head_dim=(\d+)", key)[1])
            narrow, wide = (cpu / theirs[names[name], dim, columns] for columns in (64, 128))
            label = "".join(f", {word}" for word in key.split() if word.split("=")[0] in ("format", "slots"))
            print(f"| {names[name]}{label} | {dim} | {cpu * 1e3:.0f} | {narrow:.2f} | {wide:.2f} |")
    print(f"\nLibrary, a kernel of {len(kernels)}: {library_cpu / len(kernels) * 1e3:.0f} ms CPU on average")


if __name__ == "__main__":
    main()
