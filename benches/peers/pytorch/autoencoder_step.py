"""Training steps of MONAI's AutoencoderKL; prints their time and memory as one line of JSON.

Run by autoencoder_step.py, beside its twin autoencoder_step.rs: same arguments, same line.
"""

import argparse
import ctypes
import json
import platform
import resource
import statistics
import time

import monai
import torch
from monai.networks.nets import AutoencoderKL


class Mallinfo2(ctypes.Structure):
    """glibc's account of its heap, mallinfo2(3)."""

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


LIBC = ctypes.CDLL("libc.so.6")
LIBC.mallinfo2.restype = Mallinfo2


def live_bytes() -> int:
    """Bytes of the heap in use: those in arenas and those mapped on their own."""
    info = LIBC.mallinfo2()
    return info.uordblks + info.hblkhd


def resident_peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=3, default=[64, 64, 32], help="voxels along depth, height, width")
    parser.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64], help="of each level, finest first")
    parser.add_argument("--steps", type=int, default=3, help="steps to time, after one that is not")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--recompute", action="store_true", help="MONAI's use_checkpoint")
    return parser.parse_args()


def autoencoder(options: argparse.Namespace) -> AutoencoderKL:
    levels = len(options.channels)
    groups = max(groups for groups in range(1, 33) if all(channels % groups == 0 for channels in options.channels))
    return AutoencoderKL(
        spatial_dims=3,
        channels=options.channels,
        num_res_blocks=[1] * levels,
        attention_levels=[False] * levels,
        norm_num_groups=groups,
        with_encoder_nonlocal_attn=False,
        with_decoder_nonlocal_attn=False,
        use_checkpoint=options.recompute,
    )


def train_step(model: AutoencoderKL, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> tuple[float, int]:
    """One step; its seconds, and the bytes held between forward and backward."""
    optimizer.zero_grad(set_to_none=True)
    begin, live = time.perf_counter(), live_bytes()
    reconstruction, mean, sigma = model(x)
    kl = 0.5 * torch.sum(mean**2 + sigma**2 - torch.log(sigma**2) - 1, dim=[1, 2, 3, 4]).mean()
    loss = torch.nn.functional.l1_loss(reconstruction, x) + 1e-6 * kl
    del reconstruction, mean, sigma, kl
    held = live_bytes() - live
    loss.backward()
    optimizer.step()
    return time.perf_counter() - begin, held


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = autoencoder(options)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.rand(1, 1, *options.shape)
    resident_before = resident_peak_bytes()
    train_step(model, optimizer, x)
    steps = sorted(train_step(model, optimizer, x) for _ in range(options.steps))
    version = torch.__version__.split("+")[0]
    line = {
        "program": f"MONAI {monai.__version__}, PyTorch {version}, Python {platform.python_version()}",
        "mode": "encoder and decoder checkpointed" if options.recompute else "plain",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "step_seconds": statistics.median(seconds for seconds, _ in steps),
        "held_bytes": steps[len(steps) // 2][1],
        "heap_peak_bytes": None,
        "resident_before_bytes": resident_before,
        "resident_peak_bytes": resident_peak_bytes(),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
