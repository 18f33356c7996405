#!/usr/bin/env python3
"""Removes the synchronisation instructions of saved launches one at a time and tells
which removals the simulator notices.

usage: mutate.py DIR... [--sim PATH] [--modes M,M,...] [--checks LIST] [--kernels N,N,...]
                 [--sample N] [--seed S] [--goal PERCENT] [--report FILE]

DIR is a folder with launch.json, or one with such folders in it (flamia-run
--save-launch). Launches of the same PTX belong together: a mutant is caught when one of
them ends with an error, a deadlock or another output under one of the modes. A mutant is
equivalent when a walk over the control flow proves it (`proof`), or when none of the
launches breaks a rule and flamia-sim --order-digest says for each that all accesses are
ordered as before (docs/simulator-races.md). Those are not counted.
--sample takes every so-many-th mutant only.
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


class Launches:
    """Copies of the launches of one PTX file, which can be run with other text."""

    def __init__(self, sources, work):
        self.folders = []
        for n, source in enumerate(sources):
            folder = os.path.join(work, str(n))
            shutil.copytree(source, folder)
            self.folders.append(folder)
        self.paths = [os.path.join(f, ptx_name(f)) for f in self.folders]

    def write(self, lines):
        for path in self.paths:
            with open(path, "w") as out:
                out.writelines(lines)


def ptx_name(folder):
    with open(os.path.join(folder, "launch.json")) as f:
        launch = json.load(f)
    if "record" not in launch:
        return launch["ptx"]
    with open(os.path.join(folder, launch["record"])) as f:
        return json.load(f)["ptx"]


def run(args, folder, mode, *more):
    """What a run ended with, None when all is well."""
    command = [args.sim, "--launch", os.path.join(folder, "launch.json"), "--async=" + mode,
               "--checks=" + args.checks, "--threads=1", *more]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return f"no end within {args.timeout:.0f} s"
    if done.returncode == 0:
        return None
    errors = [l for l in done.stdout.splitlines() if "error:" in l]
    return errors[0].split("error: ", 1)[1] if errors else f"exit code {done.returncode}"


def digest(args, folder):
    """PTX line -> digest of what orders its accesses, of a run that breaks no rule."""
    path = os.path.join(folder, "order.digest")
    trouble = run(args, folder, "eager", "--order-digest=" + path)
    if trouble:
        sys.exit(f"mutate.py: {folder}: {trouble}")
    with open(path) as f:
        return {int(number): value for number, value in map(str.split, f)}


def ordered_alike(args, launches, before, number):
    """True when without the instruction of a line all accesses are ordered as before."""
    for folder, old in zip(launches.folders, before):
        new = digest(args, folder)
        # The instruction itself may have been a signal or a wait.
        if any(old.get(n) != new.get(n) for n in (old.keys() | new.keys()) - {number}):
            return False
    return True


def mutate(args, kernel, sources, rows):
    work = tempfile.mkdtemp(prefix="mutate")
    try:
        mutate_in(args, kernel, Launches(sources, work), rows)
    finally:
        shutil.rmtree(work)


def mutate_in(args, kernel, launches, rows):
    with open(launches.paths[0]) as f:
        lines = f.readlines()
    for folder in launches.folders:
        for mode in args.modes.split(","):
            trouble = run(args, folder, mode)
            if trouble:
                sys.exit(f"mutate.py: {kernel} fails unchanged under {mode}: {trouble}")
    orders = args.checks == "all"
    before = [digest(args, folder) for folder in launches.folders] if orders else []
    listed = list(mutants(lines))
    flow = Flow(lines)
    for number, name, replacement in listed[args.seed % args.sample :: args.sample]:
        reason = proof(flow, number)
        changed = list(lines)
        changed[number - 1] = replacement
        launches.write(changed)
        found = by = None
        for mode in args.modes.split(","):
            for folder in launches.folders:
                found = found or run(args, folder, mode)
            if found:
                by = mode
                break
        if not found and not reason and orders and ordered_alike(args, launches, before, number):
            reason = "all accesses are ordered as before"
        rows.append({"kernel": kernel, "line": number, "class": name, "key": key(lines, number),
                     "instruction": lines[number - 1].strip(), "caught": found, "mode": by, "equivalent": reason})
        state = "caught" if found else "equivalent" if reason else "SURVIVES"
        print(f"{state:10} {kernel}:{number} {lines[number - 1].strip()[:70]}"
              + (f"  [{by}] {found[:110]}" if found else f"  {reason or ''}"), flush=True)


def find_launches(args):
    """(kernel, folders) for every PTX text in the folders named."""
    groups = {}
    for root in args.folders:
        inside = [os.path.join(root, n) for n in sorted(os.listdir(root))]
        folders = [f for f in [root] + inside if os.path.exists(os.path.join(f, "launch.json"))]
        if not folders:
            sys.exit(f"mutate.py: no launch.json in {root}")
        for folder in folders:
            name = ptx_name(folder)
            kernel = os.path.splitext(name)[0]
            if args.kernels and kernel not in args.kernels.split(","):
                continue
            with open(os.path.join(folder, name)) as f:
                groups.setdefault((kernel, f.read()), []).append(folder)
    return [(kernel, folders) for (kernel, _), folders in groups.items()]


def summary(name, rows, modes):
    counted = [r for r in rows if not r["equivalent"]]
    caught = [r for r in counted if r["caught"]]
    share = 100 * len(caught) / max(1, len(counted))
    by = ", ".join(f"{m} {sum(r['mode'] == m for r in caught)}" for m in modes.split(","))
    print(f"{name}: {len(rows)} mutants, {len(rows) - len(counted)} equivalent; {len(caught)} of {len(counted)} others caught "
          f"({share:.1f}%; first by {by})")
    return share


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--sim", default="flamia-sim")
    parser.add_argument("--modes", default="eager,late,random:1,random:2,random:3")
    parser.add_argument("--checks", default="all")
    parser.add_argument("--kernels")
    parser.add_argument("--sample", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--goal", type=float, default=95)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--report")
    args = parser.parse_intermixed_args()
    rows = []
    groups = find_launches(args)
    for kernel, folders in groups:
        begin = len(rows)
        mutate(args, kernel, folders, rows)
        if len(groups) > 1:
            summary(kernel, rows[begin:], args.modes)
    if args.report:
        with open(args.report, "w") as f:
            json.dump(rows, f, indent=1)
    # What the walk proves to change nothing cannot be caught.
    wrong = [r for r in rows if r["equivalent"] and r["caught"]]
    for r in wrong:
        print(f"mutate.py: error: {r['kernel']}:{r['line']} is proven equivalent, but is caught: {r['caught']}")
    share = summary("all", rows, args.modes)
    if wrong or not rows or share < args.goal:
        sys.exit(1)


if __name__ == "__main__":
    main()
