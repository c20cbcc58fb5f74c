"""Compares training steps of the KL autoencoder on a graphics card: MONAI on PyTorch CUDA, in float32 and under autocast, plain,
in channels_last_3d, compiled and checkpointed; and leanburn's ladder of memory savers.

    python benches/peers/gpu_autoencoder.py --leanburn target/release/leanburn --device cuda [--shape 256 256 64] [--out FILE]

Both in one run on the same card, one process for each line. The medians of the steps count. It needs PyTorch with CUDA and
MONAI; without MONAI's package the lines of PyTorch are left out and said so. Losses are not compared here, as each program
draws weights of its own: `autoencoder_step.py` compares them on the CPU, and the tests on GPUs compare those with the CPU.
"""

import argparse
import datetime
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import time

from compare import machine

GIB = 2**30
# Of PyTorch: the precision, and how it is used.
LINES = [
    (dtype, dict(channels_last=channels_last, compile=compile, checkpoint=checkpoint))
    for dtype in ["f32", "bf16"]
    for checkpoint in [False, True]
    for compile in [False, True]
    for channels_last in [False, True]
]


def words(way: dict[str, bool]) -> str:
    named = [("compiled", way["compile"]), ("channels_last_3d", way["channels_last"])]
    chosen = [word for word, flag in named if flag] or ["plain"]
    return ", ".join(chosen + (["checkpointed"] if way["checkpoint"] else []))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leanburn", default="target/release/leanburn", help="the command, built for the device")
    parser.add_argument("--device", default="cuda", help="as `leanburn devices` names it")
    parser.add_argument("--shape", type=int, nargs=3, default=[256, 256, 64])
    parser.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, help="write the table here")
    parser.add_argument("--tiny", action="store_true", help="a few voxels, one step, nothing compiled: whether it runs")
    parser.add_argument("--line", type=int, help=argparse.SUPPRESS)  # one line of PyTorch, in a process of its own
    if "--tiny" in sys.argv[1:]:
        parser.set_defaults(shape=[16, 16, 16], channels=[32, 32], steps=1)
    options = parser.parse_args()
    if options.tiny and options.out:
        parser.error("--tiny measures nothing: it writes no table")
    return options


def pytorch_line(options: argparse.Namespace) -> dict:
    import monai
    import torch
    from monai.networks.nets import AutoencoderKL

    dtype, way = LINES[options.line]
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
        use_checkpoint=way["checkpoint"],
    ).cuda()
    x = torch.rand(1, 1, *options.shape, device="cuda")
    if way["channels_last"]:
        model, x = (item.to(memory_format=torch.channels_last_3d) for item in (model, x))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    forward = torch.compile(model, dynamic=False) if way["compile"] else model
    seconds = []
    for _ in range(options.steps + 2):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=dtype == "bf16"):
            reconstruction, mean, sigma = forward(x)
        mean, sigma = mean.float(), sigma.float()
        kl = 0.5 * torch.sum(mean**2 + sigma**2 - torch.log(sigma**2) - 1, dim=[1, 2, 3, 4]).mean()
        (torch.nn.functional.l1_loss(reconstruction.float(), x) + 1e-6 * kl).backward()
        optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return {
        "program": f"MONAI {monai.__version__}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}",
        "card": torch.cuda.get_device_name(),
        "is_peer": True,
        "dtype": dtype,
        "mode": words(way),
        "seconds": statistics.median(seconds[2:]),
        "live": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
    }


def of_pytorch(options: argparse.Namespace) -> list[dict]:
    lines = []
    for index, (dtype, way) in enumerate(LINES):
        name = f"{words(way)}, {dtype}"
        if options.tiny and way["compile"]:
            continue
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
    # each line has what the one before has: once it is half, it stays so
    halves = itertools.accumulate(("bf16" in line["saver"] or "f16" in line["saver"] for line in answer["ladder"]), max)
    return [
        {
            "program": "leanburn",
            "is_peer": False,
            "dtype": "bf16" if is_half else "f32",
            "mode": line["saver"],
            "seconds": line["step_seconds"],
            "live": line["measured_bytes"],
            "reserved": line["measured_reserved_bytes"],
            "planned": line["predicted_reserved_bytes"],
        }
        for line, is_half in zip(answer["ladder"], halves)
    ]


def table(lines: list[dict]) -> str:
    def gib(size: int | None) -> str:
        return "" if size is None else f"{size / GIB:.2f} GiB"

    def ratio(line: dict) -> str:
        peers = [other["seconds"] for other in lines if other["is_peer"] and other["dtype"] == line["dtype"]]
        return f"{line['seconds'] / min(peers):.2f}" if peers else ""

    rows = ["| program | mode | dtype | step | ratio | live peak | reserved | planned reserve |"]
    rows += ["|---|---|---|---:|---:|---:|---:|---:|"]
    for line in lines:
        cells = [line["program"], line["mode"], line["dtype"], f"{line['seconds']:.3f} s", ratio(line)]
        cells += [gib(line["live"]), gib(line["reserved"])]
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
        card = next((line["card"] for line in lines if "card" in line), "its name is not known, as PyTorch did not run")
        text = f"""# Autoencoder, {channels}, {shape}, batch 1, on a graphics card

{datetime.date.today()}, leanburn on `{options.device}`; the card: {card}; beside it {machine()}
Medians of {options.steps} steps after two.

{body}

*Ratio*: to the fastest of PyTorch's lines of the same precision. bf16 is `torch.autocast` there; float32 convolutions run in
TF32 there, PyTorch's default. Losses are not compared in this table: each program draws weights of its own.
"""
        options.out.write_text(text)


if __name__ == "__main__":
    main()
