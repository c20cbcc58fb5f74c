"""Training steps of MONAI's SwinUNETR; the same as rust/swin_unetr_step.rs."""

import argparse
import time

import monai
import torch
from measure import (
    Step, add_variant, compiled, fill, gradient_norm, laid_out, live_bytes, parameter_count, program, report, values, variant,
)
from monai.losses import DiceCELoss
from monai.networks.nets import SwinUNETR

# The steps whose losses and gradients are compared: the first, and the one after three updates.
COMPARED = 4


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=3, required=True, help="voxels along depth, height, width")
    parser.add_argument("--feature-size", type=int, required=True)
    parser.add_argument("--in-channels", type=int, required=True)
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="steps to time, after four that are not")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], required=True, help="bf16: under autocast")
    parser.add_argument("--recompute", action="store_true", help="MONAI's use_checkpoint")
    parser.add_argument("--no-update", action="store_true", help="leave the optimizer's step out, to see that it is noticed")
    add_variant(parser)
    return parser.parse_args()


class Program:
    """The model with its optimizer, a volume and its labels: the same numbers as in Rust."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        model = SwinUNETR(options.in_channels, options.classes, feature_size=options.feature_size, use_checkpoint=options.recompute)
        self.model = laid_out(fill(model), options)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=options.learning_rate, betas=(0.9, 0.999), eps=1e-8)
        self.x = laid_out(values([1, options.in_channels, *options.shape], 7), options)
        self.labels = ((values([1, 1, *options.shape], 17) + 1) * (options.classes / 2)).floor()
        self.loss = DiceCELoss(softmax=True, to_onehot_y=True)
        self.forward = compiled(self.model, options)

    def step(self) -> Step:
        self.optimizer.zero_grad(set_to_none=True)
        begin, live = time.perf_counter(), live_bytes()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.options.dtype == "bf16"):
            logits = self.forward(self.x)
        loss = self.loss(logits.float(), self.labels)
        del logits
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
    mode = variant(options, *(["transformer checkpointed"] if options.recompute else []))
    versions = {"MONAI": monai.__version__}
    name = f"MONAI {monai.__version__}, {program()}"
    report(mode, name, options.steps, live_at_start, step, dtype=options.dtype, untimed=COMPARED, versions=versions)


if __name__ == "__main__":
    main()
