#!/usr/bin/env bash
# Builds flamia and runs its main job: quantize, attention forward and backward on the
# simulator, comparison with the references, probes. Further arguments go to flamia-run.
# Without --format it runs both formats and closes with a table of both; so it does not
# where one run's files or texts are asked for (--out, --json, --save-launch, --help...).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${FLAMIA_BUILD_DIR:-$root/build}
"$root/scripts/build.sh"
for argument in "$@"; do
  name=${argument%%=*}
  case ${name#-} in
    -format | format | -out | out | -json | json | -save-launch | save-launch | \
      -q-global-scale | q-global-scale | -k-global-scale | k-global-scale | \
      -help | help | h | -h | -version | version)
      exec "$build/bin/flamia-run" "$@" ;;
  esac
done

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
for format in mxfp8 nvfp4; do
  # A failed check leaves results too; without them there is nothing to go on with.
  "$build/bin/flamia-run" --format=$format --json="$results/$format.json" "$@" ||
    [[ -f $results/$format.json ]] || exit 1
  echo
done
/usr/bin/python3 "$root/scripts/compare-formats.py" "$results/mxfp8.json" "$results/nvfp4.json"
