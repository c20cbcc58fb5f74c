"""Training steps of MONAI's AutoencoderKL; the counterpart of rust/autoencoder_step.rs."""

import argparse
import time

import monai
import torch
from measure import Step, fill, live_bytes, parameter_count, program, report, values
from monai.networks.nets import AutoencoderKL


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=3, required=True, help="voxels along depth, height, width")
    parser.add_argument("--channels", type=int, nargs="+", required=True, help="of each level, finest first")
    parser.add_argument("--steps", type=int, required=True, help="steps to time, after one that is not")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], required=True, help="bf16: under autocast")
    parser.add_argument("--attention", action="store_true", help="at the last level, flash attention")
    parser.add_argument("--recompute", action="store_true", help="MONAI's use_checkpoint")
    return parser.parse_args()


def autoencoder(options: argparse.Namespace) -> AutoencoderKL:
    levels = len(options.channels)
    groups = max(groups for groups in range(1, 33) if all(channels % groups == 0 for channels in options.channels))
    return AutoencoderKL(
        spatial_dims=3,
        channels=options.channels,
        num_res_blocks=[1] * levels,
        attention_levels=[False] * (levels - 1) + [options.attention],
        norm_num_groups=groups,
        with_encoder_nonlocal_attn=False,
        with_decoder_nonlocal_attn=False,
        use_checkpoint=options.recompute,
        use_flash_attention=options.attention,
    )


def train_step(model: AutoencoderKL, optimizer: torch.optim.Optimizer, x: torch.Tensor, half: bool) -> Step:
    optimizer.zero_grad(set_to_none=True)
    begin, live = time.perf_counter(), live_bytes()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        reconstruction, mean, sigma = model(x)
    mean, sigma = mean.float(), sigma.float()
    kl = 0.5 * torch.sum(mean**2 + sigma**2 - torch.log(sigma**2) - 1, dim=[1, 2, 3, 4]).mean()
    l1 = torch.nn.functional.l1_loss(reconstruction.float(), x)
    loss = l1 + 1e-6 * kl
    del reconstruction, mean, sigma
    kept = live_bytes() - live
    loss.backward()
    optimizer.step()
    seconds = time.perf_counter() - begin
    return Step(seconds, kept, {"parameters": parameter_count(model), "kl": kl.item(), "l1": l1.item()})


def main() -> None:
    options, live_at_start = arguments(), live_bytes()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = fill(autoencoder(options))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = values([1, 1, *options.shape], 7)
    mode = "encoder and decoder checkpointed" if options.recompute else "plain"
    name = f"MONAI {monai.__version__}, {program()}"
    report(mode, name, options.steps, live_at_start, lambda: train_step(model, optimizer, x, options.dtype == "bf16"))


if __name__ == "__main__":
    main()
