"""Training steps of MONAI's AutoencoderKL; the same as rust/autoencoder_step.rs."""

import argparse
import time

import monai
import torch
from measure import (
    Step, add_variant, compiled, fill, gradient_norm, laid_out, live_bytes, parameter_count, program, report, values, variant,
)
from monai.networks.nets import AutoencoderKL

# The steps whose losses and gradients are compared: the first, and the one after three updates.
COMPARED = 4


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=3, required=True, help="voxels along depth, height, width")
    parser.add_argument("--channels", type=int, nargs="+", required=True, help="of each level, finest first")
    parser.add_argument("--steps", type=int, required=True, help="steps to time, after four that are not")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], required=True, help="bf16: under autocast")
    parser.add_argument("--attention", action="store_true", help="at the last level, flash attention")
    parser.add_argument("--recompute", action="store_true", help="MONAI's use_checkpoint")
    parser.add_argument("--no-update", action="store_true", help="leave the optimizer's step out, to see that it is noticed")
    add_variant(parser)
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


class Program:
    """The model with its optimizer, and a volume with the noise of its latent: the same numbers as in Rust."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.model = laid_out(fill(autoencoder(options)), options)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=options.learning_rate, betas=(0.9, 0.999), eps=1e-8)
        self.x = laid_out(values([1, 1, *options.shape], 7), options)
        latent = [size >> (len(options.channels) - 1) for size in options.shape]
        self.noise = laid_out(values([1, self.model.latent_channels, *latent], 17), options)
        self.forward = compiled(self.encode_and_decode, options)

    def encode_and_decode(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`AutoencoderKL.forward` with given noise."""
        mean, sigma = self.model.encode(x)
        return self.model.decode(mean + noise * sigma), mean, sigma

    def step(self) -> Step:
        self.optimizer.zero_grad(set_to_none=True)
        begin, live = time.perf_counter(), live_bytes()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.options.dtype == "bf16"):
            reconstruction, mean, sigma = self.forward(self.x, self.noise)
        mean, sigma = mean.float(), sigma.float()
        kl = 0.5 * torch.sum(mean**2 + sigma**2 - torch.log(sigma**2) - 1, dim=[1, 2, 3, 4]).mean()
        l1 = torch.nn.functional.l1_loss(reconstruction.float(), self.x)
        loss = l1 + 1e-6 * kl
        del reconstruction, mean, sigma
        kept = live_bytes() - live
        loss.backward()
        if not self.options.no_update:
            self.optimizer.step()
        seconds = time.perf_counter() - begin
        checks = {"parameters": parameter_count(self.model), "kl": kl.item(), "l1": l1.item(), "loss": loss.item()}
        return Step(seconds, kept, checks | {"gradient norm": gradient_norm(self.model.parameters())})


def main() -> None:
    options, live_at_start = arguments(), live_bytes()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    step = Program(options).step
    mode = variant(options, *(["encoder and decoder checkpointed"] if options.recompute else []))
    versions = {"MONAI": monai.__version__}
    name = f"MONAI {monai.__version__}, {program()}"
    report(mode, name, options.steps, live_at_start, step, dtype=options.dtype, untimed=COMPARED, versions=versions)


if __name__ == "__main__":
    main()
