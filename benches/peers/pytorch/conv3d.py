"""Times single convolutions, one for each line of the input; the same as rust/conv3d.rs.

`open B I O D H W KD KH KW SD SH SW PD PH PW` takes up a convolution and answers with what it computes, `time S` with
seconds of forward and of backward (gradients of input, weight and bias, from a gradient of ones that is there before),
means of repetitions that take S seconds.
"""

import argparse
import json
import math
import sys
import time

import torch
from measure import add_variant, compiled, digest, laid_out, program, torch_versions, values, variant


class Case:
    """A convolution with its tensors."""

    def __init__(self, numbers: list[int], options: argparse.Namespace) -> None:
        batch, channels_in, channels_out, *rest = numbers
        size, kernel, self.stride, self.padding = (rest[at : at + 3] for at in range(0, 12, 3))
        bound = 1 / math.sqrt(channels_in * math.prod(kernel))
        x, bias = values([batch, channels_in, *size], 7), values([channels_out], 13)
        weight = bound * values([channels_out, channels_in, *kernel], 11)
        x, weight = laid_out(x, options), laid_out(weight, options)
        dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
        self.tensors = [tensor.to(dtype).requires_grad_() for tensor in [x, weight, bias]]
        stride, padding = self.stride, self.padding
        if options.compile:
            torch.compiler.reset()  # each shape is a program of its own; only so many are kept for one function
        self.conv3d = compiled(lambda *tensors: torch.nn.functional.conv3d(*tensors, stride=stride, padding=padding), options)

    def forward(self) -> torch.Tensor:
        return self.conv3d(*self.tensors)

    def backward(self, y: torch.Tensor, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(y, self.tensors, gradient)

    def checks(self) -> dict:
        y = self.forward()
        gradient = values(list(y.shape), 17).to(y.dtype)  # another at every position and channel
        names = ["output", "input gradient", "weight gradient", "bias gradient"]
        digests = {name: digest(tensor.float()) for name, tensor in zip(names, [y, *self.backward(y, gradient)])}
        return {"shape": list(y.shape), **digests}

    def time(self, least_seconds: float) -> dict:
        forward, backward, repetitions = 0.0, 0.0, 0
        y = self.forward()
        ones = torch.ones_like(y)  # laid out as the output is
        self.backward(y, ones)
        while forward + backward < least_seconds:
            begin = time.perf_counter()
            y = self.forward()
            middle = time.perf_counter()
            self.backward(y, ones)
            del y
            forward, backward = forward + middle - begin, backward + time.perf_counter() - middle
            repetitions += 1
        return {"forward": forward / repetitions, "backward": backward / repetitions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    add_variant(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    greeting = {"program": program(), "mode": variant(options), "threads": torch.get_num_threads(), "versions": torch_versions()}
    print(json.dumps(greeting), flush=True)
    case = None
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "open":
            case = None
            case = Case(list(map(int, numbers)), options)
            answer = case.checks()
        else:
            answer = case.time(float(numbers[0]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
