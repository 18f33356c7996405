#!/usr/bin/env python3
"""Compares docs/simulator-rules.md with flamia-sim --help and with the tests it names.

usage: docs.py ROOT

- Every name of --checks has a section, and every section is one of them, "deadlock" or
  "Before the launch".
- Every row names PTX sections (all with their titles at the end of the page), cases that
  break the rule with that name, and cases that obey it.
- Every breaking case of test/Sim/Rules and test/Sim/Races stands in a row.
"""
import fnmatch
import os
import re
import subprocess
import sys

import rules


def known_cases(root):
    """FILE:CASE -> the check it breaks, None (obeys) or "?" (breaks, name not known)."""
    found = {}
    folder = os.path.join(root, "test/Sim/Rules")
    for name in sorted(os.listdir(folder)):
        for case, _, check, _ in rules.cases(os.path.join(folder, name)):
            found[f"{name[:-5]}:{case}"] = check and check.split("+")[0]
    folder = os.path.join(root, "test/Sim/Races")
    for name in sorted(os.listdir(folder)):
        text = open(os.path.join(folder, name)).read()
        for breaks, case, rest in re.findall(r"RUN: (not )?flamia-sim --launch %t/(\S+)\.json(.*)", text):
            key = f"Races/{name[:-5]}:{case}"
            if not breaks:
                # A breaking kernel may be run again without the check.
                found.setdefault(key, None)
                continue
            # The FileCheck lines of its prefix name the check.
            prefix = re.search(r"--check-prefix=(\S+)", rest)
            lines = re.findall(rf"^# {prefix.group(1) if prefix else 'CHECK'}: .*\[-([\w-]+)\]$", text, re.M)
            found[key] = lines[0] if lines else "?"
    return found


def main():
    root = sys.argv[1]
    cases = known_cases(root)
    page = open(os.path.join(root, "docs/simulator-rules.md")).read()
    body, _, titles = page.partition("## Titles")
    titled = set(re.findall(r"(?:^|[;\s])(\d+(?:\.\d+)+)\s", titles))
    errors, sections, used = [], set(), set()
    section = None
    for line in body.splitlines():
        if line.startswith("## "):
            section = line[3:].strip()
            sections.add(section)
        cells = [c.strip() for c in line.split("|")[1:-1]]
        if len(cells) != 4 or cells[0] in ("rule", "---"):
            continue
        rule, ptx, breaking, obeying = cells
        numbers = re.findall(r"\d+(?:\.\d+)+", ptx)
        if not numbers:
            errors.append(f"{section}: no PTX section for '{rule}'")
        errors += [f"{section}: PTX section {n} has no title" for n in numbers if n not in titled]
        check = "-" if section == "Before the launch" else section
        for text, wanted in ((breaking, check), (obeying, None)):
            patterns = [p.strip() for p in text.split(",") if p.strip()]
            if not patterns:
                errors.append(f"{section}: no {'breaking' if wanted else 'obeying'} case for '{rule}'")
            for pattern in patterns:
                # Stars pass over cases of the other kind.
                matched = {c for c in fnmatch.filter(cases, pattern)
                           if cases[c] == wanted or (wanted and cases[c] == "?") or "*" not in pattern}
                wrong = [c for c in matched if cases[c] != wanted and not (wanted and cases[c] == "?")]
                if not matched:
                    errors.append(f"{section}: no case '{pattern}'")
                errors += [f"{section}: case '{c}' breaks {cases[c]}, expected {wanted}" for c in wrong]
                used |= matched
    usage = subprocess.run(["flamia-sim", "--help"], capture_output=True, text=True, check=True).stdout
    names = re.search(r"^Names of checks: (.*)", usage, re.M)
    listed = set(names.group(1).split()) if names else set()
    if len(listed) < 10:
        errors.append(f"flamia-sim --help lists only {sorted(listed)}")
    extra = {"deadlock", "Before the launch"}
    errors += [f"no section for the check '{n}'" for n in sorted(listed - sections)]
    errors += [f"no check has the name '{n}'" for n in sorted(sections - listed - extra)]
    errors += [f"breaking case '{c}' ({k}) is in no row" for c, k in cases.items() if k and c not in used]
    print("\n".join(errors))
    print(f"{len(cases)} cases, {len(listed)} checks, {len(errors)} errors")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
