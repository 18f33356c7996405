"""Checks that every message of a dialect's verifiers has a test.

    check-message-coverage.py SOURCE.cpp... -- TEST.mlir...

A message is the string literal with which a source starts an error. Its first literal
piece must occur inside an expected-error of some test.
"""
import re
import sys


def messages(source):
    text = open(source).read()
    # Adjacent literals are one string.
    pattern = r'(?:emitOpError\(|emitError\(\)\s*<<\s*|emitError\([^"()]*,\s*)((?:"(?:[^"\\]|\\.)*"\s*)+)'
    for match in re.finditer(pattern, text):
        literal = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match.group(1)))
        line = text.count("\n", 0, match.start()) + 1
        yield f"{source}:{line}", literal.replace('\\"', '"')


def main():
    split = sys.argv.index("--")
    expected = ""
    for test in sys.argv[split + 1:]:
        expected += "\n".join(re.findall(r"expected-error[^{]*\{\{(.*)\}\}", open(test).read())) + "\n"
    count = 0
    missing = []
    for source in sys.argv[1:split]:
        for place, literal in messages(source):
            count += 1
            if literal not in expected:
                missing.append(f"{place}: no test expects '{literal}'")
    print("\n".join(missing) or f"all {count} messages are tested")
    if count == 0:
        print("no message was found: the pattern is out of date")
    return 1 if missing or count == 0 else 0


sys.exit(main())
