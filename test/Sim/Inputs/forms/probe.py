#!/usr/bin/env python3
"""Which targets take which instruction form, by ptxas.

usage: probe.py            rewrites verdicts.txt from forms.txt (needs ptxas 13.0)
       probe.py --check    the same, but only says what differs
       probe.py --ptx ARCH FILE    writes a module with every form that ARCH takes, one entry each

A line of verdicts.txt belongs to the line of forms.txt with the same number: one number for each form that the line
stands for, whose bit i says that ARCHS[i] takes it.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ARCHS = ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_120a"]
REG = re.compile(r"(?<![\w.%:])([pbhrdq])(\d+)\b")


def expand(line):
    """Replaces <a|b> by each of its choices."""
    m = re.search(r"<([^<>]*)>", line)
    if not m:
        return [line.replace("\\|", "|")]
    return [f for a in re.split(r"(?<!\\)\|", m.group(1)) for f in expand(line[:m.start()] + a + line[m.end():])]


def lines():
    """The lines of forms.txt as lists of forms (empty for comments)."""
    with open(os.path.join(HERE, "forms.txt")) as f:
        return [expand(line.strip()) if line.strip() and line[0] != "#" else [] for line in f]


def forms():
    return list(dict.fromkeys(f for line in lines() for f in line))


def recorded():
    """The targets that take each form, as verdicts.txt says."""
    with open(os.path.join(HERE, "verdicts.txt")) as f:
        masks = [[int(word, 16) for word in line.split()] for line in f]
    return {form: {a for i, a in enumerate(ARCHS) if mask >> i & 1} for line, row in zip(lines(), masks, strict=True)
            for form, mask in zip(line, row, strict=True)}


def head(arch):
    return f".version 9.0\n.target {arch}\n.address_size 64\n"


def entry(number, form, first=""):
    """An entry of four lines that contains the form; `first` goes before it."""
    opcode, space, rest = form.partition(" ")
    text = opcode + space + REG.sub(r"%\1\2", rest)
    return (f".visible .entry k{number}(.param .align 128 .b8 map[128]) .maxnreg 128\n"
            "{ .reg .pred %p<16>; .reg .b8 %b<16>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .b64 %d<24>; .reg .b128 %q<8>; "
            f"{first}\n{text}\ndone: ret; }}\n")


def assemble(fs, chosen, arch):
    """Return code and {index: message} of one assembly of these forms."""
    text = head(arch)
    line = text.count("\n")
    where = {}
    for n in chosen:
        e = entry(n, fs[n])
        for k in range(e.count("\n")):
            where[line + 1 + k] = n
        line += e.count("\n")
        text += e
    with tempfile.TemporaryDirectory() as folder:
        ptx = os.path.join(folder, "forms.ptx")
        with open(ptx, "w") as f:
            f.write(text)
        p = subprocess.run(["ptxas", "-arch=" + arch, "-O0", ptx, "-o", os.path.join(folder, "o")], capture_output=True, text=True)
    bad = {}
    for m in re.finditer(r"line (\d+); (?:error|fatal)\s*: (.*)", p.stderr):
        n = where.get(int(m.group(1)))
        if n is not None:
            bad.setdefault(n, m.group(2))
    for m in re.finditer(r"error\s*: (.*\bk(\d+)\b.*)", p.stderr):
        bad.setdefault(int(m.group(2)), m.group(1))
    return p.returncode, bad


def taken(fs, arch):
    """The forms that ptxas takes."""
    def accepted(chosen):
        while chosen:
            code, bad = assemble(fs, chosen, arch)
            if code == 0:
                return chosen
            if bad:
                chosen = [n for n in chosen if n not in bad]
            elif len(chosen) == 1:
                return []  # ptxas itself fails
            else:
                half = len(chosen) // 2
                return accepted(chosen[:half]) + accepted(chosen[half:])
        return chosen
    return {fs[n] for n in accepted(list(range(len(fs))))}


def main():
    fs = forms()
    if "--ptx" in sys.argv:
        arch, out = sys.argv[2:4]
        verdicts = recorded()
        with open(out, "w") as f:
            f.write(head(arch) + "".join(entry(n, form) for n, form in enumerate(fs) if arch in verdicts[form]))
        return
    found = {a: taken(fs, a) for a in ARCHS}
    if "--check" in sys.argv:
        verdicts = recorded()
        wrong = [f for f in fs if verdicts[f] != {a for a in ARCHS if f in found[a]}]
        for f in wrong:
            print(f"{f} recorded for {sorted(verdicts[f])}, ptxas takes it for {[a for a in ARCHS if f in found[a]]}")
        sys.exit(bool(wrong))
    with open(os.path.join(HERE, "verdicts.txt"), "w") as f:
        for line in lines():
            f.write(" ".join("%x" % sum(1 << i for i, a in enumerate(ARCHS) if form in found[a]) for form in line) + "\n")


if __name__ == "__main__":
    main()
