#!/usr/bin/env bash
# Installs every package that building and testing flamia needs. Idempotent and quiet
# when nothing is missing. Needs root (or sudo) only when something is missing.
set -euo pipefail

packages=(cmake ninja-build clang-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev
  mlir-22-tools libclang-rt-22-dev clang-format-22 clang-tidy-22 libgtest-dev
  libbenchmark-dev ccache python3 python3-numpy zlib1g-dev libzstd-dev)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
if ((${#missing[@]})); then
  echo "setup: installing ${missing[*]}"
  sudo=()
  if [[ $(id -u) != 0 ]]; then sudo=(sudo); fi
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# The compiler needs a ptxas that knows sm_100a and sm_103a (CUDA 12.9 or newer).
ptxas=${FLAMIA_PTXAS:-$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)}
if [[ ! -x $ptxas ]]; then
  echo "setup: no ptxas: install the CUDA 13.0 toolkit or set FLAMIA_PTXAS" >&2
  exit 1
fi

# The throughput model reads machine code (docs/model.md). A toolkit's nvdisasm will do;
# otherwise the one from PyPI is put where lib/Model looks for it.
nvdisasm_version=13.2.78
place=$HOME/.cache/flamia/nvdisasm-$nvdisasm_version
nvdisasm=${FLAMIA_NVDISASM:-$(command -v nvdisasm || echo "$place/nvidia/cu13/bin/nvdisasm")}
if [[ ! -x $nvdisasm ]]; then
  echo "setup: installing nvidia-cuda-nvdisasm $nvdisasm_version into $place"
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$place" \
    "nvidia-cuda-nvdisasm==$nvdisasm_version"
  chmod +x "$nvdisasm"
fi
