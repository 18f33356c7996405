#!/usr/bin/env bash
# Builds flamia and passes all tests of the bounded set. The last line sums all suites:
# `N passed, N failed, N skipped`. Exit code 1 when a test failed or none ran.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${FLAMIA_BUILD_DIR:-$root/build}
"$root/scripts/build.sh" || exit 1
exec /usr/bin/python3 "$root/scripts/run-tests.py" --build="$build" "$@"
