#!/usr/bin/env python3
"""Runs every suite (lit, GoogleTest) of a build tree and prints one closing line.

usage: run-tests.py --build=DIR [--slow] [--only=lit|unit] [--filter=REGEX]

GoogleTest programs are listed in BUILD/unittests.txt, which CMake writes, so that a program
that failed to build is a failure and not an absence.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

LIT = "/usr/lib/llvm-22/bin/lit"


def run_unit(program, slow):
    """Returns (passed, failed, skipped) of one GoogleTest program."""
    if not os.path.exists(program):
        print("missing unit test program: %s" % program)
        return 0, 1, 0
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        selection = "*Slow*" if slow else "*:-*Slow*"
        start = time.time()
        done = subprocess.run(
            [program, "--gtest_brief=1", "--gtest_filter=" + selection, "--gtest_output=json:" + report.name],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        try:
            result = json.load(open(report.name))
        except ValueError:
            print(done.stdout[-4000:])
            print("%s: exit code %d and no report" % (program, done.returncode))
            return 0, 1, 0
    failed = result["failures"] + result.get("errors", 0)
    skipped = sum(t.get("result") == "SKIPPED" for s in result["testsuites"] for t in s["testsuite"])
    ran = sum(t.get("status") == "RUN" for s in result["testsuites"] for t in s["testsuite"])
    if failed or done.returncode:
        print(done.stdout[-8000:])
        failed = max(failed, 1)
    print("%-40s %4d tests, %d failed, %.1f s" % (os.path.basename(program), ran, failed, time.time() - start), flush=True)
    return ran - failed - skipped, failed, skipped


def run_lit(build, slow, pattern):
    """Returns (passed, failed, skipped) of the lit suite."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, LIT, "-sv", os.path.join(build, "test"), "--output", report.name]
        if slow:
            command += ["--param", "slow=1", "--filter", "Slow"]
        elif pattern:
            command += ["--filter", pattern]
        subprocess.run(command)
        try:
            tests = json.load(open(report.name))["tests"]
        except ValueError:
            return 0, 1, 0
    count = lambda *codes: sum(t["code"] in codes for t in tests)
    passed, skipped = count("PASS", "XFAIL"), count("UNSUPPORTED", "SKIPPED")
    return passed, len(tests) - passed - skipped, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--only", choices=["lit", "unit"])
    parser.add_argument("--filter", default="")
    args = parser.parse_args()
    totals = []
    if args.only != "lit":
        for line in open(os.path.join(args.build, "unittests.txt")).read().split():
            if re.search(args.filter, line):
                totals.append(run_unit(os.path.join(args.build, "bin", line), args.slow))
    if args.only != "unit":
        totals.append(run_lit(args.build, args.slow, args.filter))
    passed, failed, skipped = (sum(column) for column in zip(*totals)) if totals else (0, 0, 0)
    if passed + failed == 0:
        print("no test ran")
        failed = 1
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
