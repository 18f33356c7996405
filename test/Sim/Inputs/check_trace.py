#!/usr/bin/env python3
"""Checks a trace of flamia-sim --trace and prints what it holds.

usage: check_trace.py TRACE.json

Events of a row nest, waits and operations last, every issued operation appears once and is joined to its issue by
a flow, phases of a barrier follow each other.
"""
import collections
import json
import sys


def main():
    trace = json.load(open(sys.argv[1]))
    events = trace["traceEvents"]
    rows, flows, count = collections.defaultdict(list), collections.defaultdict(list), collections.Counter()
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    for e in events:
        if e["ph"] == "M":
            continue
        assert (e["pid"], e["tid"]) in named and e["pid"] in processes, e
        if e["ph"] == "X":
            assert e["ts"] >= 0 and e["dur"] > 0, e
            rows[e["pid"], e["tid"]].append(e)
            count[e["cat"]] += 1
        else:
            assert e["ph"] in "stf", e
            flows[e["id"]].append(e)
    spans = {}
    for key, row in rows.items():
        stack = []
        for e in sorted(row, key=lambda e: (e["ts"], -e["dur"])):
            end = e["ts"] + e["dur"]
            while stack and stack[-1] <= e["ts"]:
                stack.pop()
            assert not stack or end <= stack[-1], "events of row %s overlap: %s" % (named[key], e)
            stack.append(end)
        spans[key] = row
    for name, row in ((named[k], r) for k, r in rows.items() if named[k].startswith("mbarrier")):
        phases = [int(e["name"].split()[1]) for e in sorted(row, key=lambda e: e["ts"])]
        assert phases == sorted(set(phases)), (name, phases)
    # An issue, its operation, and where it ends.
    inside = lambda f: any(e["ts"] <= f["ts"] <= e["ts"] + e["dur"] for e in spans[f["pid"], f["tid"]])
    for key, flow in flows.items():
        kinds = [f["ph"] for f in sorted(flow, key=lambda f: (f["ts"], "stf".index(f["ph"])))]
        assert kinds in (["s", "f"], ["s", "t", "f"]), (key, kinds)
        assert all(map(inside, flow)), flow
    operations = sum(count[c] for c in ("batch", "load", "store", "tmem"))
    assert len(flows) == operations == count["issue"], (len(flows), operations, count["issue"])
    batched = sum(e["args"]["mmas"] for e in events if e.get("cat") == "batch")
    assert batched == count["mma"], (batched, count["mma"])
    print("truncated:", trace["otherData"]["truncated"])
    for category in sorted(count):
        print("%s: %d" % (category, count[category]))
    for key in sorted(named):
        print("row %d: %s" % (key[0], named[key]))
    for name in sorted({e["name"] for e in events if e.get("cat") == "wait" and e["args"].get("open")}):
        print("open: " + name)


if __name__ == "__main__":
    main()
