#!/usr/bin/env python3
"""Writes variants of DIR/NAME.ptx without the lines tagged "// @tag", and launch.json
files for it and them; block.json gives the threads of each NAME.

usage: without.py DIR NAME [TAG | TAG:SUFFIX]...

NAME-TAG.ptx has every line tagged @TAG blanked, so that line numbers stay. With
TAG:SUFFIX the text after the tag replaces the line, and the variant is NAME-SUFFIX.
"""
import json
import os
import re
import sys


def main():
    folder, name, *tags = sys.argv[1:]
    block = json.load(open(os.path.join(folder, "block.json")))[name]
    shape = block if isinstance(block, dict) else {"block": [block, 1, 1]}
    lines = open(os.path.join(folder, name + ".ptx")).read().splitlines()

    def write(variant, text):
        launch = {"ptx": variant + ".ptx", "entry": "k", "grid": [1, 1, 1], "params": []}
        launch.update(shape)
        with open(os.path.join(folder, variant + ".json"), "w") as f:
            json.dump(launch, f)
        if variant != name:
            with open(os.path.join(folder, variant + ".ptx"), "w") as f:
                f.write("\n".join(text) + "\n")

    write(name, lines)
    for tag in tags:
        tag, _, suffix = tag.partition(":")
        changed = 0
        out = []
        for line in lines:
            match = re.search(rf"// @{tag}\b(.*)", line)
            changed += bool(match)
            label = re.match(r"\s*\w+:", line) if match else None
            new = (label.group() if label else "") + (match.group(1) if suffix else "") if match else line
            out.append(new)
        if not changed:
            sys.exit(f"no line of {name}.ptx is tagged @{tag}")
        write(f"{name}-{suffix or tag}", out)


if __name__ == "__main__":
    main()
