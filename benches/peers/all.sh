#!/usr/bin/env bash
# Makes all tables of benches/results that need no graphics card: some hours, on a machine that does nothing else.
#
#   benches/peers/all.sh [THREADS]
set -euo pipefail
cd "$(dirname "$0")/../.."

threads=${1:-2}
cargo build --release --locked -p leanburn --example peers
cargo build --release --locked -p leanburn-cli
python3 benches/peers/conv3d_sweep.py --threads "$threads" --write
python3 benches/peers/conv3d_sweep.py --threads "$threads" --dtype bf16 --write
python3 benches/peers/attention.py --threads "$threads" --write
python3 benches/peers/residual_chain.py --threads "$threads" --write
python3 benches/peers/autoencoder_step.py --threads "$threads" --dtype f32 bf16 --skip-burn --write
python3 benches/peers/diffusion_step.py --threads "$threads" --write
python3 benches/peers/segmentation_step.py --model dyn_unet --threads "$threads" --write
python3 benches/peers/segmentation_step.py --model swin_unetr --threads "$threads" --write
python3 benches/peers/fno_step.py --threads "$threads" --steps 2 --write
# PyTorch 2.15 does not compile the planes' complex views ("self.stride(-1) must be 1 to view ComplexFloat as Float").
python3 benches/peers/fno_step.py --threads "$threads" --no-compile --steps 2 --batch-size 8 --shape 128 128 --width 256 --modes 12 --layers 10 --write
large=(--threads "$threads" --only ours --recompute --shape 256 256 64 --updates 1 --steps 1 --write)
python3 benches/peers/autoencoder_step.py "${large[@]}" --stream two:16 one none:16 joined
python3 benches/peers/autoencoder_step.py "${large[@]}" --stream two one --dtype bf16 --attention
python3 benches/memory/systems.py --threads "$threads" --write
