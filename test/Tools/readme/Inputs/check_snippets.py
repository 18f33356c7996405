"""Checks that the README's IR snippets are what the compiler prints.

usage: check_snippets.py README.md FLAMIAC KERNEL.mlir

A fenced block after `<!-- snippet: STAGE -->` must occur in the output of that stage (or,
for `source`, in the kernel): its lines in this order, others between them allowed. Numbers
of SSA values and registers are ignored (`%#`), `...` stands for anything.
"""
import re
import subprocess
import sys

readme, flamiac, kernel = sys.argv[1:]


def normal(line):
    return re.sub(r"%(r|rd|p|f)?\d+", lambda m: "%" + (m.group(1) or "") + "#", " ".join(line.split()))


def lines_of(stage):
    if stage == "source":
        text = open(kernel).read()
    else:
        command = [flamiac, kernel, "-arch=sm_100a", "--emit=" + stage, "-o", "-"]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [normal(line) for line in text.splitlines()]


snippets = re.findall(r"<!-- snippet: (\w+) -->\n```\w*\n(.*?)```", open(readme).read(), re.S)
assert len(snippets) >= 5, "expected a snippet a stage"
for stage, body in snippets:
    printed = iter(lines_of(stage))
    for line in body.splitlines():
        pattern = re.compile(".*".join(re.escape(part) for part in normal(line).split("...")))
        if not any(pattern.fullmatch(candidate) for candidate in printed):
            sys.exit("%s: the compiler does not print, after the lines before it:\n%s" % (stage, line))
    print("%s: ok" % stage)
