#!/usr/bin/env python3
"""Runs the cases of a table of rules: kernels that break one rule, and ones that obey.

usage: rules.py TEST DIR [--ptxas]

TEST has sections that begin with "#--- NAME". "k.ptx" is a template with ${name} and
${name:default} to be replaced (default up to the brace; longer ones are lines "name=value"
of "defaults", where a case may also choose one: name=$other); "launch" is its launch.json without "ptx" and "entry", a template too;
without it one CTA of 32 threads is launched.
"arrays" lists buffers to make, "FILE TYPE ELEMENTS" a line, filled with zeros. Each line
of "cases" is one kernel:

  NAME [name=value]...                       obeys: no error, whatever the schedule
  NAME [name=value]... -> CHECK: message     breaks CHECK: one error with this message

The message may be a part of the whole; further parts behind " && " may also stand in the
notes below it. An error names the line that ends with "// !"
(when there is none, any). CHECK "-" is an error before the launch, which may also name
line 1 or none. Values are quoted as in a shell. With --ptxas the assembler must take or refuse the kernel likewise.

docs.py reads the same cases to compare them with docs/simulator-rules.md.
"""
import json
import os
import re
import shlex
import subprocess
import sys


def sections(path):
    """Name -> lines of the sections of a file."""
    found, lines = {}, None
    for line in open(path):
        match = re.match(r"#--- (\S+)", line)
        if match:
            lines = found.setdefault(match.group(1), [])
        elif lines is not None:
            lines.append(line.rstrip("\n"))
    return found


def cases(path):
    """(name, values, check, message) of each case; check is None when it obeys."""
    for line in sections(path).get("cases", []):
        if not line.strip() or line.startswith("#"):
            continue
        left, arrow, right = line.partition(" -> ")
        name, *pairs = shlex.split(left)
        values = dict(p.split("=", 1) for p in pairs)
        check, _, message = right.strip().partition(": ")
        yield name, values, (check if arrow else None), message


def fill(text, values, used, defaults):
    def value(match):
        name, colon, default = match.group(1).partition(":")
        used.add(name)
        if name in values:
            chosen = values[name]
            return defaults[chosen[1:]] if chosen.startswith("$") else chosen
        if colon:
            return default
        if name in defaults:
            return defaults[name]
        sys.exit(f"no value for ${{{name}}}")

    return re.sub(r"\$\{([^}]*)\}", value, text)


def main():
    test, folder = sys.argv[1:3]
    parts = sections(test)
    os.makedirs(folder, exist_ok=True)
    for line in parts.get("arrays", []):
        import numpy

        name, kind, elements = line.split()
        numpy.save(os.path.join(folder, name), numpy.zeros(int(elements), kind))
    defaults = dict(line.split("=", 1) for line in parts.get("defaults", []) if line)
    failures = 0
    count = 0
    for name, values, check, message in cases(test):
        count += 1
        used = set()
        text = fill("\n".join(parts["k.ptx"]), values, used, defaults)
        launch = {"grid": [1, 1, 1], "block": [32, 1, 1], "params": []}
        launch.update(json.loads(fill("\n".join(parts.get("launch", ["{}"])), values, used, defaults)))
        launch.update(ptx=name + ".ptx", entry="k")
        if set(values) - used:
            sys.exit(f"{name}: unused values {set(values) - used}")
        ptx = os.path.join(folder, name + ".ptx")
        with open(ptx, "w") as f:
            f.write(text + "\n")
        path = os.path.join(folder, name + ".json")
        with open(path, "w") as f:
            json.dump(launch, f)
        blamed = [n for n, line in enumerate(text.splitlines(), 1) if line.endswith("// !")]

        def wrong(why, output):
            nonlocal failures
            failures += 1
            print(f"{name}: {why}\n{output}")

        for mode in ("eager", "late", "random:1") if check is None else ("eager",):
            run = subprocess.run(["flamia-sim", "--launch=" + path, "--async=" + mode],
                                 capture_output=True, text=True, timeout=120)
            if check is None:
                if run.returncode or run.stderr:
                    wrong(f"should obey (--async={mode}), but", run.stderr)
                continue
            errors = [line for line in run.stderr.splitlines() if "error: " in line]
            if run.returncode != 1 or len(errors) != 1:
                wrong(f"should break {check} with one error, exit code {run.returncode}", run.stderr)
                continue
            tag = re.search(r" \[-([\w-]+)\]$", errors[0])
            line = re.search(re.escape(name) + r"\.ptx:(\d+): error: ", errors[0])
            if (tag.group(1) if tag else "-") != check:
                wrong(f"should break {check}, but", run.stderr)
            elif message.split(" && ")[0] not in errors[0]:
                wrong(f"should say '{message}', but", run.stderr)
            elif any(part not in run.stderr for part in message.split(" && ")):
                wrong(f"should note '{message}', but", run.stderr)
            elif check == "-" and (not line or line.group(1) == "1"):
                pass
            elif blamed and (not line or int(line.group(1)) not in blamed):
                wrong(f"should blame line {blamed}, but", run.stderr)
        if "--ptxas" in sys.argv:
            target = re.search(r"^\.target (\S+)", text, re.M).group(1)
            run = subprocess.run([os.environ.get("FLAMIA_PTXAS", "ptxas"), "-arch=" + target, ptx, "-o", ptx + ".cubin"],
                                 capture_output=True, text=True, timeout=120)
            if bool(run.returncode) != (check is not None):
                wrong("ptxas disagrees", run.stdout + run.stderr)
    if not count:
        sys.exit("no cases")
    print(f"{count} cases, {failures} wrong")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
