"""Ends well where `torch.compile` works, forward and backward; else its last line says why not."""

import torch

try:
    x = torch.randn(8, requires_grad=True)
    torch.compile(lambda x: torch.nn.functional.silu(x) * 2)(x).sum().backward()
except Exception as error:
    raise SystemExit(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
