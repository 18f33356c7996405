#!/usr/bin/env python3
"""Prints the results of several flamia-run jobs (--json) as one table, a row each.

usage: compare-formats.py FILE.json...

The last line is PASS when every job passed, else FAIL, with exit code 1.
"""
import json
import sys

OUTPUTS = ["O", "dQ", "dK", "dV"]
PROBES = ["causal", "documents", "consistency"]


def number(value, form):
    # flamia-run writes null for what is not finite.
    return "inf" if value is None else format(value, form)


def errors(found, form):
    # The model has no error against itself, a forward no gradients.
    return [number(found[name], form) if name in found else "-" for name in OUTPUTS]


def probes(found):
    return ["-" if name not in found else "ok" if found[name]["ok"] else "FAIL" for name in PROBES]


def blocks(found):
    """Saturated and flushed blocks of Q and K together, and of how many."""
    return [str(sum(t[name] for t in found.values())) if found else "-" for name in ("saturated", "flushed", "blocks")]


def main():
    results = [json.load(open(path)) for path in sys.argv[1:]]
    titles = {1: "vs model", 5: "vs fp64", 9: "probes", 12: "nvfp4 blocks"}
    rows = [["format"] + OUTPUTS + OUTPUTS + PROBES + ["saturated", "flushed", "of", "result"]]
    for result in results:
        rows.append([result["format"]] + errors(result["rel_err_model"], ".1e") + errors(result["rel_err"], ".4f") +
                    probes(result["probes"]) + blocks(result.get("blocks", {})) + ["ok" if result["pass"] else "FAIL"])
    widths = [max(len(row[i]) for row in rows) + 2 for i in range(len(rows[0]))]
    title = ""
    for column, text in titles.items():
        title = title.ljust(sum(widths[:column])) + text
    print(title)
    for row in rows:
        print("".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    passed = all(result["pass"] for result in results)
    print("PASS" if passed else "FAIL")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
