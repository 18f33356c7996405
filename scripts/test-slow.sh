#!/usr/bin/env bash
# The long-running tests: lit tests in folders named Slow and GoogleTests named Slow*.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec "$root/scripts/test.sh" --slow "$@"
