"""Training steps of MONAI's DiffusionModelUNet; the same as rust/diffusion_step.rs."""

import argparse
import time

import monai
import torch
from measure import (
    Step, add_variant, compiled, fill, gradient_norm, laid_out, live_bytes, parameter_count, program, report, values, variant,
)
from monai.networks.nets import DiffusionModelUNet

# The steps whose losses and gradients are compared: the first, and the one after three updates.
COMPARED = 4
# The time of the noisy latent.
TIME = 500


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=3, required=True, help="voxels of the latent along depth, height, width")
    parser.add_argument("--latent-channels", type=int, required=True)
    parser.add_argument("--channels", type=int, nargs="+", required=True, help="of each level, finest first")
    parser.add_argument("--head-channels", type=int, required=True, help="of an attention head")
    parser.add_argument("--steps", type=int, required=True, help="steps to time, after four that are not")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], required=True, help="bf16: under autocast")
    parser.add_argument("--no-update", action="store_true", help="leave the optimizer's step out, to see that it is noticed")
    add_variant(parser)
    return parser.parse_args()


def unet(options: argparse.Namespace) -> DiffusionModelUNet:
    """MONAI has flash attention on CUDA only: on the CPU it stores the scores."""
    levels = len(options.channels)
    return DiffusionModelUNet(
        spatial_dims=3,
        in_channels=options.latent_channels,
        out_channels=options.latent_channels,
        channels=options.channels,
        num_res_blocks=[1] * levels,
        attention_levels=[level > 0 for level in range(levels)],
        norm_num_groups=max(groups for groups in range(1, 33) if all(channels % groups == 0 for channels in options.channels)),
        num_head_channels=options.head_channels,
    )


class Program:
    """The model with its optimizer, and a latent with its noise: the same numbers as in Rust."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.model = laid_out(fill(unet(options)), options)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=options.learning_rate, betas=(0.9, 0.999), eps=1e-8)
        latent = [1, options.latent_channels, *options.shape]
        self.x, self.noise = laid_out(values(latent, 7), options), laid_out(values(latent, 17), options)
        self.timesteps = torch.tensor([TIME])
        self.forward = compiled(self.model, options)

    def step(self) -> Step:
        self.optimizer.zero_grad(set_to_none=True)
        begin, live = time.perf_counter(), live_bytes()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.options.dtype == "bf16"):
            prediction = self.forward(self.x, self.timesteps)
        loss = torch.nn.functional.mse_loss(prediction.float(), self.noise)
        del prediction
        kept = live_bytes() - live
        loss.backward()
        if not self.options.no_update:
            self.optimizer.step()
        seconds = time.perf_counter() - begin
        checks = {"parameters": parameter_count(self.model), "loss": loss.item()}
        return Step(seconds, kept, checks | {"gradient norm": gradient_norm(self.model.parameters())})


def main() -> None:
    options, live_at_start = arguments(), live_bytes()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    step = Program(options).step
    name = f"MONAI {monai.__version__}, {program()}"
    versions = {"MONAI": monai.__version__}
    report(variant(options), name, options.steps, live_at_start, step, dtype=options.dtype, untimed=COMPARED, versions=versions)


if __name__ == "__main__":
    main()
