#!/usr/bin/env python3
"""Removes the synchronisation instructions of a saved launch one at a time and tells
which removals the simulator notices.

usage: mutate.py DIR... [--sim PATH] [--modes M,M,...] [--checks LIST] [--sample N]
                 [--seed S] [--equivalent FILE] [--goal PERCENT] [--report FILE]

DIR is a folder with launch.json (flamia-run --save-launch). A mutant is caught when a
mode ends with an error, a deadlock or another output. --equivalent names a JSON file
of removals that change nothing by the rules, with the reason of each; they are not
counted. --sample takes every so-many-th mutant only.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

# What is removed, and what stands in its place.
CLASSES = [
    ("wait", re.compile(r"mbarrier\.(?:try|test)_wait\S*\s+(%\w+)\s*,"), "setp.eq.u32 \\1, 0, 0;"),
    ("arrive", re.compile(r"mbarrier\.(?:arrive|expect_tx|complete_tx)"), ""),
    ("commit", re.compile(r"tcgen05\.commit"), ""),
    ("tcgen05.wait", re.compile(r"tcgen05\.wait"), ""),
    ("tcgen05.fence", re.compile(r"tcgen05\.fence"), ""),
    ("fence", re.compile(r"(?:fence|membar)\."), ""),
    ("barrier", re.compile(r"\b(?:bar|barrier)\.(?!warp)"), ""),
    ("bulk group", re.compile(r"cp\.async\.(?:bulk\.)?(?:commit_group|wait_group|wait_all)"), ""),
]


def mutants(lines):
    """Yields (line number from 1, class, line without the instruction)."""
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        for name, pattern, replacement in CLASSES:
            match = pattern.search(code)
            if not match:
                continue
            # A guard goes with its instruction; a wait leaves a true predicate.
            kept = match.expand(replacement) if replacement else ""
            yield number, name, f"\t{kept} // removed: {code.strip()}\n"
            break


# What the proofs below distinguish.
LOAD = re.compile(r"tcgen05\.ld")
STORE = re.compile(r"tcgen05\.st")
TENSOR = re.compile(r"tcgen05\.(?:ld|st|mma|cp|shift)")
SIGNAL = re.compile(r"\bmbarrier\.(?:arrive|expect_tx|complete_tx)|\b(?:bar|barrier)\.(?!warp)|tcgen05\.(?:commit|dealloc)|cp\.async\.bulk|\bst\.|\bred\.|\batom\.")
ARRIVE = re.compile(r"\bmbarrier\.(?:arrive|expect_tx|complete_tx)|\b(?:bar|barrier)\.(?!warp)")
AWAIT = re.compile(r"\bmbarrier\.(?:try|test)_wait|\b(?:bar|barrier)\.(?!warp)")


class Flow:
    """Ways through a kernel's instructions: one a line, labels and branches."""

    def __init__(self, lines):
        self.code = [line.split("//")[0].strip() for line in lines]
        labels = {m.group(1): n for n, c in enumerate(self.code) if (m := re.match(r"([$\w]+):", c))}
        self.next = [[] for _ in lines]
        self.back = [[] for _ in lines]
        for n, c in enumerate(self.code):
            branch = re.search(r"\bbra(?:\.uni)?\s+([$\w]+)", c)
            if branch and branch.group(1) in labels:
                self.next[n].append(labels[branch.group(1)])
            leaves = re.match(r"(?:ret|exit|trap|bra(?:\.uni)?)\b", c)
            if not leaves and n + 1 < len(lines):
                self.next[n].append(n + 1)
        for n, targets in enumerate(self.next):
            for t in targets:
                self.back[t].append(n)

    def meets(self, start, edges, bad, stop):
        """True when some way from `start` comes to a line matching `bad` before one
        that matches `stop`."""
        todo, seen = list(edges[start]), set()
        while todo:
            n = todo.pop()
            if n in seen:
                continue
            seen.add(n)
            # Guarded instructions may not be executed: they stop nothing.
            if bad.search(self.code[n]):
                return True
            if stop.search(self.code[n]) and not self.code[n].startswith("@"):
                continue
            todo += edges[n]
        return False


def proof(flow, number):
    """Why removing the instruction of a line changes nothing by the rules of PTX, or
    None. Every way through the program is looked at, whatever its branches do."""
    n = number - 1
    code = flow.code[n]
    if "tcgen05.wait::" in code:
        kind, access = ("st", STORE) if "wait::st" in code else ("ld", LOAD)
        same = re.compile(r"tcgen05\.wait::" + kind)
        if not flow.meets(n, flow.back, access, same):
            return f"no tcgen05.{kind} lies between this and the wait::{kind} before it"
        if kind == "st" and not flow.meets(n, flow.next, re.compile(SIGNAL.pattern + r"|tcgen05\.(?:ld|mma|cp|shift|fence::before)"), same):
            return "another wait::st follows before anything signals or uses tensor memory"
    if "fence::after" in code:
        same = re.compile(r"fence::after")
        if not flow.meets(n, flow.next, TENSOR, same):
            return "another fence::after follows before any access to tensor memory"
        if not flow.meets(n, flow.back, AWAIT, same):
            return "nothing is waited for between this and the fence::after before it"
    if "fence::before" in code:
        same = re.compile(r"fence::before")
        if not flow.meets(n, flow.next, ARRIVE, same):
            return "another fence::before follows before anything is signalled"
        # mma and cp are passed on by commit, which implies the fence.
        if not flow.meets(n, flow.back, re.compile(r"tcgen05\.(?:ld|st)|tcgen05\.fence::after"), same):
            return "no tcgen05.ld, st or fence::after lies between this and the fence::before before it"
    return None


def key(lines, number):
    """A mutant's name that survives new line numbers: the instruction without
    registers, and how many like it stand before."""
    def bare(line):
        return re.sub(r"%\w+", "%", " ".join(line.split("//")[0].split()))
    this = bare(lines[number - 1])
    return f"{this} #{sum(bare(l) == this for l in lines[: number - 1])}"


def run(args, folder, mode):
    command = [args.sim, "--launch", os.path.join(folder, "launch.json"), "--async=" + mode,
               "--checks=" + args.checks, "--threads=1"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return f"no end within {args.timeout:.0f} s"
    if done.returncode == 0:
        return None
    errors = [l for l in done.stdout.splitlines() if "error:" in l]
    return errors[0].split("error: ", 1)[1] if errors else f"exit code {done.returncode}"


def mutate_folder(args, source, equivalent, rows):
    work = tempfile.mkdtemp(prefix="mutate")
    folder = os.path.join(work, "launch")
    shutil.copytree(source, folder)
    ptx = next(n for n in sorted(os.listdir(folder)) if n.endswith(".ptx"))
    kernel = os.path.splitext(ptx)[0]
    path = os.path.join(folder, ptx)
    lines = open(path).readlines()
    for mode in args.modes.split(","):
        trouble = run(args, folder, mode)
        if trouble:
            sys.exit(f"mutate.py: {source} fails unchanged under {mode}: {trouble}")
    known = equivalent.get(kernel, {})
    listed = list(mutants(lines))
    flow = Flow(lines)
    for number, name, replacement in listed[args.seed % args.sample :: args.sample]:
        reason = proof(flow, number) or known.get(key(lines, number))
        found = mode = None
        changed = list(lines)
        changed[number - 1] = replacement
        with open(path, "w") as out:
            out.writelines(changed)
        for mode in args.modes.split(","):
            found = run(args, folder, mode)
            if found:
                break
        rows.append({"kernel": kernel, "line": number, "class": name, "key": key(lines, number),
                     "instruction": lines[number - 1].strip(), "caught": found, "mode": mode if found else None,
                     "equivalent": reason})
        state = "caught" if found else "equivalent" if reason else "SURVIVES"
        print(f"{state:10} {kernel}:{number} {lines[number - 1].strip()[:70]}"
              + (f"  [{mode}] {found[:110]}" if found else f"  {reason or ''}"), flush=True)
    shutil.rmtree(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--sim", default="flamia-sim")
    parser.add_argument("--modes", default="eager,late,random:1,random:2,random:3")
    parser.add_argument("--checks", default="all")
    parser.add_argument("--sample", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--equivalent")
    parser.add_argument("--goal", type=float, default=95)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--report")
    args = parser.parse_intermixed_args()
    equivalent = {}
    if args.equivalent:
        with open(args.equivalent) as f:
            equivalent = json.load(f)
    rows = []
    for folder in args.folders:
        mutate_folder(args, folder, equivalent, rows)
    if args.report:
        with open(args.report, "w") as f:
            json.dump(rows, f, indent=1)
    # A removal listed as equivalent that is caught all the same is no equivalent.
    wrong = [r for r in rows if r["equivalent"] and r["caught"]]
    for r in wrong:
        print(f"mutate.py: error: {r['kernel']}:{r['line']} is listed as equivalent, but is caught: {r['caught']}")
    counted = [r for r in rows if not r["equivalent"]]
    caught = [r for r in counted if r["caught"]]
    share = 100 * len(caught) / max(1, len(counted))
    print(f"{len(rows)} mutants, {len(rows) - len(counted)} equivalent; {len(caught)} of {len(counted)} others caught "
          f"({share:.1f}%)")
    if wrong or not rows or share < args.goal:
        sys.exit(1)


if __name__ == "__main__":
    main()
