"""Parses and verifies every MLIR example of the documentation.

    check-examples.py FILE.td|FILE.md...

Examples are ```mlir blocks and one-line `Example: `...`` texts. A snippet may use values and
symbols that it does not define: they become arguments of a function around it, whose types
are found from the parser's own complaints. Blocks marked ```text are not IR.
"""
import re
import subprocess
import sys


def examples(path):
    text = open(path).read()
    for match in re.finditer(r"```mlir\n(.*?)```", text, re.S):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)
    for match in re.finditer(r"Examples?:\s*`([^`]+)`", text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)


def parse(text):
    result = subprocess.run(["flamia-opt", "-", "-o", "/dev/null"], input=text, capture_output=True, text=True)
    return result.returncode, result.stderr


def check(snippet):
    """None if the snippet is valid, else the parser's message."""
    whole = re.match(r"\s*(//.*\n\s*)*(module|flamia\.kernel|func\.func|llvm\.func|![a-z]+ =|#[a-z]+ =)", snippet)
    if whole:
        code, message = parse(snippet)
        return message if code else None
    if not re.search(r"[%(]", snippet):
        # A type or an attribute.
        code, message = parse(f"func.func private @f({snippet.strip()})\n")
        return message if code else None
    used = dict.fromkeys(re.findall(r"%[A-Za-z0-9_]+", snippet))
    defined = set()
    for line in snippet.splitlines():
        left = re.match(r"\s*((?:%[A-Za-z0-9_]+(?::\d+)?(?:,\s*)?)+)\s*=", line)
        if left:
            defined.update(re.findall(r"%[A-Za-z0-9_]+", left.group(1)))
    # Block and loop arguments.
    defined.update(re.findall(r"for (%[A-Za-z0-9_]+) =", snippet))
    defined.update(re.findall(r"[(,]\s*(%[A-Za-z0-9_]+) = %", snippet))
    types = {name: "index" for name in used if name not in defined}
    for _ in range(2 * len(types) + 2):
        arguments = ", ".join(f"{name}: {kind}" for name, kind in types.items())
        code, message = parse(f"func.func @example({arguments}) {{\n{snippet}\nreturn\n}}\n")
        if code == 0:
            return None
        wanted = re.search(r"use of value '(%[A-Za-z0-9_]+)' expects different type than prior uses: '(.*)' vs '", message)
        if not wanted or wanted.group(1) not in types:
            return message
        types[wanted.group(1)] = wanted.group(2)
    return message


def main():
    count = failed = 0
    for path in sys.argv[1:]:
        for line, snippet in examples(path):
            count += 1
            message = check(snippet)
            if message:
                failed += 1
                print(f"{path}:{line}: {message}\n{snippet}")
    print(f"{count} examples, {failed} failures")
    return 1 if failed or not count else 0


sys.exit(main())
