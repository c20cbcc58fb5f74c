"""Training steps of MONAI's DiffusionModelUNet; the same as rust/diffusion_step.rs."""

import argparse

import monai
import torch
from measure import add_variant, compiled, fill, laid_out, values, variant
from monai.networks.nets import DiffusionModelUNet
from training_step import autocast, parsed, train, training_parser

# The time of the noisy latent.
TIME = 500


def arguments() -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--shape", type=int, nargs=3, required=True, help="voxels of the latent along depth, height, width")
    parser.add_argument("--latent-channels", type=int, required=True)
    parser.add_argument("--channels", type=int, nargs="+", required=True, help="of each level, finest first")
    parser.add_argument("--head-channels", type=int, required=True, help="of an attention head")
    parser.add_argument("--attention-from", type=int, required=True, help="the finest level with attention")
    add_variant(parser)
    return parsed(parser)


def unet(options: argparse.Namespace) -> DiffusionModelUNet:
    """MONAI has flash attention on CUDA only: on the CPU it stores the scores."""
    levels = len(options.channels)
    return DiffusionModelUNet(
        spatial_dims=3,
        in_channels=options.latent_channels,
        out_channels=options.latent_channels,
        channels=options.channels,
        num_res_blocks=[1] * levels,
        attention_levels=[level >= options.attention_from for level in range(levels)],
        norm_num_groups=max(groups for groups in range(1, 33) if all(channels % groups == 0 for channels in options.channels)),
        num_head_channels=options.head_channels,
    )


def main() -> None:
    """A latent with its noise: the same numbers as in Rust."""
    options = arguments()
    model = laid_out(fill(unet(options)), options)
    latent = [1, options.latent_channels, *options.shape]
    x, noise = laid_out(values(latent, 7), options), laid_out(values(latent, 17), options)
    timesteps = torch.tensor([TIME])
    forward = compiled(model, options)

    def losses() -> dict[str, torch.Tensor]:
        with autocast(options):
            prediction = forward(x, timesteps)
        return {"loss": torch.nn.functional.mse_loss(prediction.float(), noise)}

    train(options, variant(options), model, losses, libraries={"MONAI": monai.__version__})


if __name__ == "__main__":
    main()
