"""Training steps of MONAI's AutoencoderKL; the same as rust/autoencoder_step.rs."""

import argparse

import monai
import torch
from measure import add_variant, compiled, fill, laid_out, values, variant
from monai.networks.nets import AutoencoderKL
from training_step import autocast, parsed, train, training_parser


def arguments() -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--shape", type=int, nargs=3, required=True, help="voxels along depth, height, width")
    parser.add_argument("--channels", type=int, nargs="+", required=True, help="of each level, finest first")
    parser.add_argument("--attention", action="store_true", help="at the last level, flash attention")
    parser.add_argument("--recompute", action="store_true", help="MONAI's use_checkpoint")
    add_variant(parser)
    return parsed(parser)


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


def main() -> None:
    """A volume and the noise of its latent: the same numbers as in Rust."""
    options = arguments()
    model = laid_out(fill(autoencoder(options)), options)
    x = laid_out(values([1, 1, *options.shape], 7), options)
    latent = [size >> (len(options.channels) - 1) for size in options.shape]
    noise = laid_out(values([1, model.latent_channels, *latent], 17), options)

    def encode_and_decode(x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`AutoencoderKL.forward` with given noise."""
        mean, sigma = model.encode(x)
        return model.decode(mean + noise * sigma), mean, sigma

    forward = compiled(encode_and_decode, options)

    def losses() -> dict[str, torch.Tensor]:
        with autocast(options):
            reconstruction, mean, sigma = forward(x, noise)
        mean, sigma = mean.float(), sigma.float()
        kl = 0.5 * torch.sum(mean**2 + sigma**2 - torch.log(sigma**2) - 1, dim=[1, 2, 3, 4]).mean()
        l1 = torch.nn.functional.l1_loss(reconstruction.float(), x)
        return {"loss": l1 + 1e-6 * kl, "kl": kl, "l1": l1}

    mode = variant(options, *(["encoder and decoder checkpointed"] if options.recompute else []))
    train(options, mode, model, losses, libraries={"MONAI": monai.__version__})


if __name__ == "__main__":
    main()
