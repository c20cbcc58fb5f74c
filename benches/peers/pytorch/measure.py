"""What the PyTorch programs share: values that are the same in Rust, the heap, the timing of steps, the line of JSON.

Its counterparts are rust/values.rs and rust/measure.rs.
"""

import ctypes
import json
import math
import platform
import resource
import statistics
import threading
import time
from collections.abc import Callable
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
            v = (v + v.T) / 2 if v.dim() == 2 else v
            v = v / math.sqrt(math.prod(v.shape[1:]))
        parameter.data.copy_(v)
    return module


def parameter_count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def digest(tensor: torch.Tensor) -> float:
    """A number that other values, or the same ones elsewhere, would change."""
    v = tensor.detach().double().flatten()
    return float((v.square() * (1.5 + values([v.numel()], 1).double())).sum())


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
    """Samples the heap every 0.2 ms while its block runs; `growth` is the most it grew by."""

    def __enter__(self) -> "HeapPeak":
        self.growth, self.before, self.running = 0, live_bytes(), True
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()
        return self

    def sample(self) -> None:
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
    checks: dict[str, float]


def report(mode: str, program: str, count: int, live_at_start: int, step: Callable[[], Step]) -> None:
    """Runs a step once, `count` times against the clock and once under observation; prints the line."""
    before, resident_before = live_bytes() - live_at_start, resident_peak_bytes()
    checks = step().checks
    steps = [step() for _ in range(count)]
    resident_peak = resident_peak_bytes()
    with HeapPeak() as peak:
        step()
    line = {
        "program": program,
        "mode": mode,
        "checks": checks,
        "step_seconds": statistics.median(step.seconds for step in steps),
        "kept_bytes": statistics.median(step.kept_bytes for step in steps),
        "before_bytes": before,
        "step_peak_bytes": peak.growth,
        "resident_before_bytes": resident_before,
        "resident_peak_bytes": resident_peak,
    }
    print(json.dumps(line))


def program() -> str:
    return f"PyTorch {torch.__version__.split('+')[0]}, Python {platform.python_version()}"
