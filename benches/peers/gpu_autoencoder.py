"""Compares training steps of the KL autoencoder on a graphics card: MONAI on PyTorch CUDA, eager and with automatic mixed
precision and channels last, plain and checkpointed; and leanburn's ladder of memory savers.

    python benches/peers/gpu_autoencoder.py --leanburn target/release/leanburn --device cuda [--shape 256 256 64] [--out FILE]

Both in one run on the same card, one process for each line. The medians of the steps count. It needs PyTorch with CUDA and
MONAI; without MONAI's package the lines of PyTorch are left out and said so.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import time

GIB = 2**30
LINES = [
    ("eager, float32", dict(half=False, channels_last=False, checkpoint=False)),
    ("AMP bfloat16, channels last", dict(half=True, channels_last=True, checkpoint=False)),
    ("AMP bfloat16, channels last, checkpointed", dict(half=True, channels_last=True, checkpoint=True)),
]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leanburn", default="target/release/leanburn", help="the command, built for the device")
    parser.add_argument("--device", default="cuda", help="as `leanburn devices` names it")
    parser.add_argument("--shape", type=int, nargs=3, default=[256, 256, 64])
    parser.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, help="write the table here")
    parser.add_argument("--line", type=int, help=argparse.SUPPRESS)  # one line of PyTorch, in a process of its own
    return parser.parse_args()


def pytorch_line(options: argparse.Namespace) -> dict:
    import monai
    import torch
    from monai.networks.nets import AutoencoderKL

    name, setup = LINES[options.line]
    torch.manual_seed(1)
    levels = len(options.channels)
    model = AutoencoderKL(
        spatial_dims=3,
        channels=options.channels,
        num_res_blocks=[1] * levels,
        attention_levels=[False] * levels,
        norm_num_groups=32,
        with_encoder_nonlocal_attn=False,
        with_decoder_nonlocal_attn=False,
        use_checkpoint=setup["checkpoint"],
    ).cuda()
    x = torch.rand(1, 1, *options.shape, device="cuda")
    if setup["channels_last"]:
        model, x = (item.to(memory_format=torch.channels_last_3d) for item in (model, x))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    seconds = []
    for _ in range(options.steps + 2):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=setup["half"]):
            reconstruction, mean, sigma = model(x)
        mean, sigma = mean.float(), sigma.float()
        kl = 0.5 * torch.sum(mean**2 + sigma**2 - torch.log(sigma**2) - 1, dim=[1, 2, 3, 4]).mean()
        (torch.nn.functional.l1_loss(reconstruction.float(), x) + 1e-6 * kl).backward()
        optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return {
        "program": f"MONAI {monai.__version__}, PyTorch {torch.__version__}",
        "mode": name,
        "seconds": statistics.median(seconds[2:]),
        "live": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
    }


def of_pytorch(options: argparse.Namespace) -> list[dict]:
    lines = []
    for index, (name, _) in enumerate(LINES):
        command = [sys.executable, *sys.argv, "--line", str(index)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            lines.append(json.loads(done.stdout.splitlines()[-1]))
        else:
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            print(f"left out: {name}: {said}", file=sys.stderr)
    return lines


def of_leanburn(options: argparse.Namespace) -> list[dict]:
    config = pathlib.Path(__file__).resolve().parent / "gpu_autoencoder.yaml"
    sets = [
        f"device.name={options.device}",
        f"data.phantom.shape={options.shape}",
        f"data.voxel_size={options.shape}",
        f"autoencoder.num_channels={options.channels}",
        f"autoencoder.attention_levels=[{', '.join(['false'] * len(options.channels))}]",
    ]
    command = [options.leanburn, "measure", "--ladder", "--json", "--steps", str(options.steps), str(config)]
    command += [argument for item in sets for argument in ("--set", item)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"failed with code {done.returncode}: {' '.join(command)}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return [
        {
            "program": "leanburn",
            "mode": line["saver"],
            "seconds": line["step_seconds"],
            "live": line["measured_bytes"],
            "reserved": line["measured_reserved_bytes"],
            "planned": line["predicted_reserved_bytes"],
        }
        for line in answer["ladder"]
    ]


def table(lines: list[dict]) -> str:
    def gib(size: int | None) -> str:
        return "" if size is None else f"{size / GIB:.2f} GiB"

    rows = ["| program | mode | step | live peak | reserved | planned reserve |", "|---|---|---:|---:|---:|---:|"]
    for line in lines:
        cells = [line["program"], line["mode"], f"{line['seconds']:.3f} s", gib(line["live"]), gib(line["reserved"])]
        rows.append("| " + " | ".join([*cells, gib(line.get("planned"))]) + " |")
    return "\n".join(rows)


def main() -> None:
    options = arguments()
    if options.line is not None:
        print(json.dumps(pytorch_line(options)))
        return
    lines = of_pytorch(options) + of_leanburn(options)
    body = table(lines)
    print(body)
    if options.out:
        shape, channels = "x".join(map(str, options.shape)), options.channels
        title = f"# Autoencoder, {channels}, {shape}, batch 1, on a graphics card\n\n{datetime.date.today()}, "
        options.out.write_text(f"{title}leanburn on `{options.device}`, medians of {options.steps} steps.\n\n{body}\n")


if __name__ == "__main__":
    main()
