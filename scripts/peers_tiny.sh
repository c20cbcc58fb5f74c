#!/usr/bin/env bash
# Runs all comparisons with PyTorch and MONAI at sizes of a few voxels: whether they run and all programs compute the same.
#
#   cargo build --example peers
#   scripts/peers_tiny.sh [BINARY]      the example's binary; without: target/debug/examples/peers
#
# Nothing is timed that means anything, and nothing is written. Where PyTorch or MONAI is not there, pip installs it from PyPI;
# with LEANBURN_NO_PEERS=1 nothing is installed, and without them nothing is compared.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${1:-${CARGO_TARGET_DIR:-target}/debug/examples/peers}
if [ ! -x "$binary" ]; then
  echo "$binary is not there; first: cargo build --example peers" >&2
  exit 1
fi

has() { python3 -W ignore -c "import $1" 2>/dev/null; }
missing=()
has torch || missing+=(torch)
has monai || missing+=(monai)
has einops || missing+=(einops)
if [ ${#missing[@]} -gt 0 ]; then
  if [ "${LEANBURN_NO_PEERS:-}" = 1 ]; then
    echo "left out, as LEANBURN_NO_PEERS=1 and python3 has no ${missing[*]}: comparisons with PyTorch and MONAI"
    exit 0
  fi
  echo "python3 has no ${missing[*]}: installing from PyPI (LEANBURN_NO_PEERS=1 leaves these comparisons out instead)"
  python3 -m pip install --quiet --disable-pip-version-check "${missing[@]}" ||
    python3 -m pip install --quiet --disable-pip-version-check --break-system-packages "${missing[@]}"
fi

export OMP_NUM_THREADS=1
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# A comparison's own output is shown where it fails.
compare() {
  local began=$SECONDS
  if ! python3 "benches/peers/$1" --tiny --binary "$binary" "${@:2}" > "$said" 2>&1; then
    cat "$said" >&2
    echo "FAILED: benches/peers/$*" >&2
    exit 1
  fi
  echo "$1: all compute the same ($((SECONDS - began)) s)"
}
compare conv3d_sweep.py --with-burn
compare conv3d_sweep.py --dtype bf16
compare attention.py
compare residual_chain.py
compare autoencoder_step.py --attention --stream two:4 one:4 none:4
compare diffusion_step.py
compare segmentation_step.py --model dyn_unet --shape 8 12 16
compare segmentation_step.py --model swin_unetr
compare fno_step.py
python3 scripts/swin_weights.py check

# A comparison that cannot fail is none: without the optimizer's update on either side there must be no table.
for side in peer ours; do
  if python3 benches/peers/autoencoder_step.py --tiny --dtype f32 --skip-burn --binary "$binary" --broken $side > "$said" 2>&1 ||
    ! grep -q "not the same computation in f32: no table is made" "$said" || grep -q "^| program" "$said"; then
    cat "$said" >&2
    echo "FAILED: the comparison accepts an optimizer that does not step ($side)" >&2
    exit 1
  fi
  echo "autoencoder_step.py: refuses an optimizer that does not step ($side): $(grep -m1 "decrease of the loss" "$said" | sed 's/^ *//')"
done
