#!/usr/bin/env bash
# The simulator against a Hopper GPU (docs/simulator-on-h200.md): every comparison of sim_on_gpu.
#   bench/h200/compare_sim.sh [BUILD-DIR]      here, with what is built there
#   bench/h200/compare_sim.sh --pack DIR [BUILD-DIR]   makes DIR (5 MB) to carry to a GPU machine, where
#                                              DIR/compare_sim.sh runs; it needs libc and libcuda only
# With 16 cores the whole takes 25 minutes; SECONDS_EACH bounds each mode (default 300).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
inputs=$here/../../test/Sim/Hardware
if [[ ${1-} == --pack ]]; then
  target=${2:?usage: compare_sim.sh --pack DIR [BUILD-DIR]}
  mkdir -p "$target"
  cp -r "$inputs/forms.txt" "$inputs/Inputs" "${BASH_SOURCE[0]}" "${3:-$here/../../build}/bin/sim_on_gpu" "$target"
  exit
fi
if [[ -x $here/sim_on_gpu ]]; then
  program=$here/sim_on_gpu inputs=$here
else
  program=${1:-$here/../../build}/bin/sim_on_gpu
fi
limit=--seconds=${SECONDS_EACH:-300}
status=0
"$program" programs "$inputs/Inputs" || status=1
"$program" random "$inputs/forms.txt" "$limit" || status=1
"$program" approx --bits="${APPROX_BITS:-28}" "$limit" || status=1
"$program" exhaustive "$inputs/forms.txt" --bits="${BITS:-32}" "$limit" || status=1
exit $status
