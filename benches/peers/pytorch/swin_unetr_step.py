"""Training steps of MONAI's SwinUNETR; the same as rust/swin_unetr_step.rs."""

import argparse

import monai
import torch
from measure import add_variant, compiled, fill, laid_out, values, variant
from monai.losses import DiceCELoss
from monai.networks.nets import SwinUNETR
from training_step import autocast, parsed, train, training_parser


def arguments() -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--shape", type=int, nargs=3, required=True, help="voxels along depth, height, width")
    parser.add_argument("--feature-size", type=int, required=True)
    parser.add_argument("--in-channels", type=int, required=True)
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--recompute", action="store_true", help="MONAI's use_checkpoint")
    add_variant(parser)
    return parsed(parser)


def main() -> None:
    """A volume and its labels: the same numbers as in Rust."""
    options = arguments()
    model = SwinUNETR(options.in_channels, options.classes, feature_size=options.feature_size, use_checkpoint=options.recompute)
    model = laid_out(fill(model), options)
    x = laid_out(values([1, options.in_channels, *options.shape], 7), options)
    labels = ((values([1, 1, *options.shape], 17) + 1) * (options.classes / 2)).floor()
    loss = DiceCELoss(softmax=True, to_onehot_y=True)
    forward = compiled(model, options)

    def losses() -> dict[str, torch.Tensor]:
        with autocast(options):
            logits = forward(x)
        return {"loss": loss(logits.float(), labels)}

    mode = variant(options, *(["transformer checkpointed"] if options.recompute else []))
    train(options, mode, model, losses, libraries={"MONAI": monai.__version__})


if __name__ == "__main__":
    main()
