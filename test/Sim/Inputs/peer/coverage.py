#!/usr/bin/env python3
"""Prints the distinct instructions, with all modifiers, in PTX files, and how often they are written.

usage: coverage.py [--by-file] [FILE.ptx...]      (default: all files of this folder)
"""
import collections
import glob
import os
import re
import sys

OPCODE = re.compile(r"^(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:(?:::|\.)[a-z0-9_]+)*)[\s;]")
# Names of opcodes that may stand alone; other single words at a line's start are labels or names.
BARE = {"ret", "bra", "exit", "trap", "griddepcontrol"}


def instructions(path):
    """Opcode of every instruction of a file, comments and declarations left out."""
    with open(path) as f:
        text = re.sub(r"//[^\n]*", "", f.read())
    for statement in re.split(r"[;{}\n]", text):
        statement = re.sub(r"^\s*[\w$]+:(?!:)", "", statement).strip()
        match = OPCODE.match(statement + " ")
        if match and ("." in match.group(1) or match.group(1) in BARE):
            yield match.group(1)


def main():
    files = [a for a in sys.argv[1:] if not a.startswith("--")]
    files = files or sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "*.ptx")))
    count, where = collections.Counter(), collections.defaultdict(list)
    for path in files:
        for opcode in instructions(path):
            count[opcode] += 1
            if where[opcode][-1:] != [os.path.basename(path)]:
                where[opcode].append(os.path.basename(path))
    for opcode in sorted(count):
        tail = "  " + " ".join(f[:-4] for f in where[opcode][:4]) if "--by-file" in sys.argv else ""
        print(f"{count[opcode]:6d} {opcode}{tail}")
    print(f"{len(count)} instructions in {len(files)} files", file=sys.stderr)


if __name__ == "__main__":
    main()
