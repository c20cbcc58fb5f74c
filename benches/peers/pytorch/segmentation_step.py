"""Training steps of MONAI's DynUNet and SwinUNETR; the same as rust/segmentation_step.rs."""

import argparse
import functools

import monai
import torch
from measure import add_variant, compiled, fill, laid_out, values, variant
from monai.losses import DiceCELoss
from monai.networks.nets import DynUNet, SwinUNETR
from torch.utils.checkpoint import checkpoint
from training_step import autocast, parsed, train, training_parser


def arguments() -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--shape", type=int, nargs=3, required=True, help="voxels along depth, height, width")
    parser.add_argument("--model", choices=["dyn_unet", "swin_unetr"], required=True)
    parser.add_argument("--feature-size", type=int, required=True)
    parser.add_argument("--filters", type=int, nargs="+", required=True)
    parser.add_argument("--in-channels", type=int, required=True)
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--recompute", action="store_true", help="MONAI's use_checkpoint, or each block checkpointed")
    add_variant(parser)
    return parsed(parser)


def dyn_unet(options: argparse.Namespace) -> torch.nn.Module:
    """Its blocks recomputed or not."""
    levels = len(options.filters)
    strides = [1] + [2] * (levels - 1)
    model = DynUNet(3, options.in_channels, options.classes, [3] * levels, strides, strides[1:], options.filters)
    if options.recompute:
        for block in [model.input_block, *model.downsamples, model.bottleneck, *model.upsamples]:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    return model


def main() -> None:
    """A volume and its labels: the same numbers as in Rust."""
    options = arguments()
    if options.model == "dyn_unet":
        model, recomputed = dyn_unet(options), "blocks checkpointed"
    else:
        model = SwinUNETR(options.in_channels, options.classes, feature_size=options.feature_size, use_checkpoint=options.recompute)
        recomputed = "transformer checkpointed"
    model = laid_out(fill(model), options)
    x = laid_out(values([1, options.in_channels, *options.shape], 7), options)
    labels = ((values([1, 1, *options.shape], 17) + 1) * (options.classes / 2)).floor()
    loss = DiceCELoss(softmax=True, to_onehot_y=True)
    forward = compiled(model, options)

    def losses() -> dict[str, torch.Tensor]:
        with autocast(options):
            logits = forward(x)
        return {"loss": loss(logits.float(), labels)}

    mode = variant(options, *([recomputed] if options.recompute else []))
    train(options, mode, model, losses, libraries={"MONAI": monai.__version__})


if __name__ == "__main__":
    main()
