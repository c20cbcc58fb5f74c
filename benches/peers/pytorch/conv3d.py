"""Times single convolutions, one for each line of the input; the counterpart of rust/conv3d.rs.

`open B I O D H W KD KH KW SD SH SW PD PH PW` takes up a convolution and answers with what it computes, `time S` with
seconds of forward and of backward (gradients of input, weight and bias), means of repetitions that take S seconds.
"""

import argparse
import json
import math
import sys
import time

import torch
from measure import digest, program, values


class Case:
    """A convolution with its tensors."""

    def __init__(self, numbers: list[int]) -> None:
        batch, channels_in, channels_out, *rest = numbers
        size, kernel, self.stride, self.padding = (rest[at : at + 3] for at in range(0, 12, 3))
        bound = 1 / math.sqrt(channels_in * math.prod(kernel))
        x, bias = values([batch, channels_in, *size], 7), values([channels_out], 13)
        weight = bound * values([channels_out, channels_in, *kernel], 11)
        self.tensors = [tensor.requires_grad_() for tensor in [x, weight, bias]]

    def forward(self) -> torch.Tensor:
        return torch.nn.functional.conv3d(*self.tensors, stride=self.stride, padding=self.padding)

    def backward(self, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(y, self.tensors, torch.ones_like(y))

    def checks(self) -> dict:
        y = self.forward()
        names = ["output", "input gradient", "weight gradient", "bias gradient"]
        digests = {name: digest(tensor) for name, tensor in zip(names, [y, *self.backward(y)])}
        return {"shape": list(y.shape), **digests}

    def time(self, least_seconds: float) -> dict:
        forward, backward, repetitions = 0.0, 0.0, 0
        self.backward(self.forward())
        while forward + backward < least_seconds:
            begin = time.perf_counter()
            y = self.forward()
            middle = time.perf_counter()
            self.backward(y)
            del y
            forward, backward = forward + middle - begin, backward + time.perf_counter() - middle
            repetitions += 1
        return {"forward": forward / repetitions, "backward": backward / repetitions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, required=True)
    torch.set_num_threads(parser.parse_args().threads)
    print(json.dumps({"program": program()}), flush=True)
    case = None
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "open":
            case = None
            case = Case(list(map(int, numbers)))
            answer = case.checks()
        else:
            answer = case.time(float(numbers[0]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
