"""What the PyTorch programs share: values that are the same in Rust, the heap, the timing of steps, the line of JSON.

The same in Rust: rust/values.rs and rust/measure.rs.
"""

import argparse
import ctypes
import json
import math
import platform
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

MASK = 2**32 - 1


def values(shape: list[int], salt: int = 0) -> torch.Tensor:
    """Numbers in [-1, 1) without a pattern, a hash of their position."""
    h = torch.arange(math.prod(shape), dtype=torch.int64) + salt
    h = (h * 0x9E3779B1) & MASK
    h = ((h ^ (h >> 15)) * 0x85EBCA77) & MASK
    h = h ^ (h >> 13)
    return (h.double() / 2**31 - 1).float().reshape(shape)


def fill(module: torch.nn.Module) -> torch.nn.Module:
    """Gives every parameter values that follow from its shape alone; square matrices are symmetric."""
    for parameter in module.parameters():
        v = values(list(parameter.shape))
        if v.dim() == 1:
            v = 0.5 + 0.25 * v
        else:
            v = (v + v.T) / 2 if v.dim() == 2 and v.shape[0] == v.shape[1] else v
            v = v / math.sqrt(math.prod(v.shape[1:]))
        parameter.data.copy_(v)
    return module


def parameter_count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def digest(tensor: torch.Tensor) -> dict[str, float]:
    """A tensor's length, and its product with a fixed direction: other values, signs or places would change them."""
    v, direction = tensor.detach().double().flatten(), values([tensor.numel()], 1).double()
    return {"length": float(v.norm()), "along": float(v @ direction / direction.norm())}


def gradient_norm(gradients: Iterable[torch.Tensor]) -> float:
    """The 2-norm of all gradients together."""
    return math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))


def add_variant(parser: argparse.ArgumentParser) -> None:
    """How PyTorch is used."""
    parser.add_argument("--channels-last", action="store_true", help="weights and volumes in torch.channels_last_3d")
    parser.add_argument("--compile", action="store_true", help="through torch.compile")


def variant(options: argparse.Namespace, *more: str) -> str:
    """How PyTorch is used, in words."""
    words = [word for word, flag in [("compiled", options.compile), ("channels_last_3d", options.channels_last)] if flag]
    return ", ".join([*(words or ["plain"]), *more])


def laid_out(item: torch.Tensor | torch.nn.Module, options: argparse.Namespace) -> torch.Tensor | torch.nn.Module:
    """A volume, or a module's weights, in the memory format that was asked for."""
    return item.to(memory_format=torch.channels_last_3d) if options.channels_last else item


def compiled(function: Callable, options: argparse.Namespace) -> Callable:
    """The function through torch.compile, for these shapes alone, where that was asked for."""
    return torch.compile(function, dynamic=False) if options.compile else function


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


class HeapPeak:
    """Looks at the heap every 0.2 ms while its block runs; `growth` is the most it grew by."""

    def __enter__(self) -> "HeapPeak":
        self.growth, self.before, self.running = 0, live_bytes(), True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self) -> None:
        while self.running:
            self.growth = max(self.growth, live_bytes() - self.before)
            time.sleep(2e-4)

    def __exit__(self, *_: object) -> None:
        self.running = False
        self.thread.join()


@dataclass
class Step:
    """What a step took, held between forward and backward, and computed."""

    seconds: float
    kept_bytes: int
    checks: dict[str, object]


def report(
    mode: str,
    program: str,
    count: int,
    live_at_start: int,
    step: Callable[[], Step],
    *,
    dtype: str = "f32",
    untimed: int = 1,
    versions: dict[str, str] | None = None,
) -> None:
    """Runs a step `untimed` times, `count` times against the clock and once under observation; prints the line."""
    resident_before = resident_peak_bytes()
    checks = [step().checks for _ in range(untimed)]
    steps = [step() for _ in range(count)]
    resident_peak = resident_peak_bytes()
    with HeapPeak() as peak:
        step()
    line = {
        "program": program,
        "is_peer": True,
        "mode": mode,
        "dtype": dtype,
        "threads": torch.get_num_threads(),
        "versions": torch_versions() | (versions or {}),
        "checks": checks,
        "step_seconds": statistics.median(step.seconds for step in steps),
        "kept_bytes": statistics.median(step.kept_bytes for step in steps),
        "peak_bytes": peak.before + peak.growth - live_at_start,
        "step_peak_bytes": peak.growth,
        "resident_before_bytes": resident_before,
        "resident_peak_bytes": resident_peak,
    }
    print(json.dumps(line))


def program() -> str:
    return f"PyTorch {torch.__version__.split('+')[0]}"


def torch_versions() -> dict[str, str]:
    """PyTorch, its processor kernels' instruction set, and Python."""
    capability = torch.backends.cpu.get_cpu_capability()
    return {"PyTorch": f"{torch.__version__} (CPU capability {capability})", "Python": platform.python_version()}
