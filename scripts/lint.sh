#!/usr/bin/env bash
# Checks formatting of every tracked C++ file, and with --tidy runs clang-tidy on the
# sources that the build compiled (slow: about 20 s for a source that uses MLIR).
#   scripts/lint.sh [--tidy [PATH-REGEX]]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${FLAMIA_BUILD_DIR:-$root/build}
cd "$root"
git ls-files '*.cpp' '*.h' | xargs clang-format-22 --dry-run --Werror
echo "format: clean"
if [[ ${1-} == --tidy ]]; then
  # CMake's precompiled header options name a file that clang-tidy may not share; sources
  # are parsed without it.
  filtered=$(mktemp -d)
  trap 'rm -rf "$filtered"' EXIT
  /usr/bin/python3 - "$build/compile_commands.json" "$filtered/compile_commands.json" <<'PY'
import json, re, sys
commands = json.load(open(sys.argv[1]))
for entry in commands:
    entry["command"] = re.sub(r"-Winvalid-pch|-Xclang -include-pch -Xclang \S+|-Xclang -include -Xclang \S+", "", entry["command"])
json.dump(commands, open(sys.argv[2], "w"))
PY
  git ls-files '*.cpp' | grep -E "${2:-^lib/(Sim|Numerics|Reference|Runtime|Schedule|CAPI|Model)|^tools/flamia-(sim|run|model)}" |
    xargs -P 2 -n 4 clang-tidy-22 -p "$filtered" --quiet
  echo "clang-tidy: clean"
fi
