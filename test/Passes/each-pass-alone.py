"""Runs every pass of Passes.td alone, in a fresh process, on an empty module, on the smallest
kernel, on the library's kernels and on what each other pass makes of those. Each run must
succeed or say what is wrong; never crash, abort or miss a dialect (MLR-3).

    each-pass-alone.py Passes.td KERNEL.mlir... SCRATCH
"""
import os
import re
import subprocess
import sys

SMALLEST = "flamia.kernel @smallest() parameters {} grid(1) {\n  flamia.return\n}\n"


def run(name, source, target):
    result = subprocess.run(["flamia-opt", f"--{name}", source, "-o", target], capture_output=True, text=True)
    text = result.stderr
    bad = result.returncode < 0 or result.returncode > 1
    bad |= any(word in text for word in ("isn't registered", "LLVM ERROR", "PLEASE submit", "Assertion"))
    bad |= result.returncode == 1 and "error:" not in text
    if bad:
        print(f"--{name} on {source}: exit code {result.returncode}\n{text[:2000]}")
    return bad, result.returncode == 0


def table(path):
    """The file's text, with that of what it includes from its folder in place."""
    included = lambda match: table(os.path.join(os.path.dirname(path), match.group(1)))
    return re.sub(r'include "(\w+\.td)"', included, open(path).read())


def main():
    passes = re.findall(r'Pass<"([a-z0-9-]+)"', table(sys.argv[1]))
    scratch = sys.argv[-1]
    os.makedirs(scratch, exist_ok=True)
    inputs = list(sys.argv[2:-1])
    for name, text in (("empty", ""), ("smallest", SMALLEST)):
        inputs.append(os.path.join(scratch, name + ".mlir"))
        with open(inputs[-1], "w") as file:
            file.write(text)
    failed = runs = 0
    made, seen = [], set()
    # The first round makes inputs for the second. Later passes get, in turn, what the
    # passes before them make, so that each is also seen on input that suits it.
    for source in inputs:
        last = source
        for name in passes:
            for at in {source, last}:
                target = os.path.join(scratch, f"{runs}-{name}.mlir")
                bad, ok = run(name, at, target)
                runs += 1
                failed += bad
                if ok:
                    text = open(target).read()
                    if text not in seen:
                        made.append(target)
                    seen.add(text)
                    if at == last:
                        last = target
    for source in made:
        for name in passes:
            runs += 1
            failed += run(name, source, os.devnull)[0]
    print(f"{len(passes)} passes, {runs} runs, {failed} failures")
    return 1 if failed or not passes else 0


sys.exit(main())
