#!/usr/bin/env python3
"""Runs the cases of a table of rules: kernels that break one rule, and ones that obey.

usage: rules.py TEST DIR [--ptxas]

TEST has sections that begin with "#--- NAME". "k.ptx" is a template with ${name} and
${name:default} to be replaced (default up to the brace; longer ones are lines "name=value"
of "defaults", going on in lines with two blanks before them; name=$other chooses one);
"launch" is its launch.json without "ptx" and "entry", a template too; without it one CTA of
32 threads is launched. "arrays" lists buffers to make, "FILE TYPE ELEMENTS" a line, filled
with zeros. Each line of "cases" is one kernel:

  NAME [name=value]...                       obeys: no error, whatever the schedule
  NAME [name=value]... -> CHECK: message     breaks CHECK: one error with this message

A breaking kernel breaks no other rule: with CHECK taken out of --checks there is no error of
another name, but for CHECK+OTHER, whose second rule cannot be kept.

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


def names_in(stderr):
    """Names of the rules that errors name, "-" for none."""
    errors = [line for line in stderr.splitlines() if "error: " in line]
    found = [re.search(r" \[-([\w-]+)\]$", line) for line in errors]
    return [m.group(1) if m else "-" for m in found]


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


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def obeys(path):
    """What is wrong with a kernel that should obey every rule, None when nothing is."""
    for mode in ("eager", "late", "random:1"):
        done = run("flamia-sim", "--launch=" + path, "--async=" + mode)
        if done.returncode or done.stderr:
            return f"should obey (--async={mode}), but\n{done.stderr}"
    return None


def breaks(path, check, other, message, blamed):
    """What is wrong with a kernel that should break one rule at one of the lines."""
    done = run("flamia-sim", "--launch=" + path)
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    if done.returncode != 1 or names_in(done.stderr) != [check]:
        return f"should break {check} once, exit code {done.returncode}\n{done.stderr}"
    first, *notes = message.split(" && ")
    if first not in errors[0] or any(note not in done.stderr for note in notes):
        return f"should say '{message}', but\n{done.stderr}"
    line = re.search(r"\.ptx:(\d+): error: ", errors[0])
    early = check == "-" and (not line or line.group(1) == "1")
    if blamed and not early and (not line or int(line.group(1)) not in blamed):
        return f"should blame line {blamed}, but\n{done.stderr}"
    if check in ("-", "deadlock"):
        return None
    done = run("flamia-sim", "--launch=" + path, "--checks=all,-" + check)
    if names_in(done.stderr) not in ([], [check], [other]):
        return f"should break {check} only, but\n{done.stderr}"
    return None


def ptxas_disagrees(text, ptx, refused):
    target = re.search(r"^\.target (\S+)", text, re.M).group(1)
    done = run(os.environ.get("FLAMIA_PTXAS", "ptxas"), "-arch=" + target, ptx, "-o", ptx + ".cubin")
    return bool(done.returncode) != refused and f"ptxas disagrees\n{done.stdout}{done.stderr}"


def main():
    test, folder = sys.argv[1:3]
    parts = sections(test)
    os.makedirs(folder, exist_ok=True)
    for line in parts.get("arrays", []):
        import numpy

        name, kind, elements = line.split()
        numpy.save(os.path.join(folder, name), numpy.zeros(int(elements), kind))
    joined = "\n".join(parts.get("defaults", [])).replace("\n  ", " ")
    defaults = dict(line.split("=", 1) for line in joined.splitlines() if line)
    failures = count = 0
    for name, values, check, message in cases(test):
        count += 1
        used = set()
        text = fill("\n".join(parts["k.ptx"]), values, used, defaults)
        launch = {"grid": [1, 1, 1], "block": [32, 1, 1], "params": []}
        launch.update(json.loads(fill("\n".join(parts.get("launch", ["{}"])), values, used, defaults)))
        launch.update(ptx=name + ".ptx", entry="k")
        if set(values) - used:
            sys.exit(f"{name}: unused values {set(values) - used}")
        ptx, path = (os.path.join(folder, name + end) for end in (".ptx", ".json"))
        with open(ptx, "w") as f:
            f.write(text + "\n")
        with open(path, "w") as f:
            json.dump(launch, f)
        blamed = [n for n, line in enumerate(text.splitlines(), 1) if line.endswith("// !")]
        if check:
            only, _, other = check.partition("+")
            wrong = breaks(path, only, other, message, blamed)
        else:
            wrong = obeys(path)
        if not wrong and "--ptxas" in sys.argv:
            wrong = ptxas_disagrees(text, ptx, check is not None)
        if wrong:
            failures += 1
            print(f"{name}: {wrong}")
    if not count:
        sys.exit("no cases")
    print(f"{count} cases, {failures} wrong")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
