#!/usr/bin/env bash
# Builds flamia and runs its main job: quantize, attention forward and backward on the
# simulator, comparison with the references, probes. Further arguments go to flamia-run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${FLAMIA_BUILD_DIR:-$root/build}
"$root/scripts/build.sh"
exec "$build/bin/flamia-run" "$@"
