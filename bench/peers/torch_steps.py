#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's steps of bench_step's work on the CPU: one line a run.

torch_steps.py MODEL [TOWERS [ROWS]]: MODEL is mlp, lenet, resnet20 or gpt, ROWS are a tower's (64).
Prints "STEP_US LAYOUT VERSION", the median of 30 steps after 10, of the better of NCHW and NHWC. A
step is zero_grad, forward, backward and SGD with momentum (gpt: AdamW), eager, with one thread a
tower; several towers are DistributedDataParallel with Gloo. Exit status 77: there is no PyTorch.
"""
import os
import statistics
import sys
import time

if any(name.startswith("OPENBLAS_") for name in os.environ):  # they slow it on new processors
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    os.execve(sys.executable, [sys.executable] + sys.argv, kept)
os.environ["OMP_NUM_THREADS"] = "1"  # else spinning threads make it 4 times slower on a busy machine
try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    import torch.nn.functional as F
    from torch import nn
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                         nn.Linear(128, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        conv = lambda i, s: nn.Conv2d(i, outputs, 3, s, 1, bias=False)
        self.body = nn.Sequential(conv(inputs, stride), nn.BatchNorm2d(outputs), nn.ReLU(),
                                  conv(outputs, 1), nn.BatchNorm2d(outputs))
        self.side = nn.Sequential()
        if stride != 1:
            self.side = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                      nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.side(x))


def resnet20():
    """He et al. 2015, for CIFAR, with projections."""
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for outputs in (16, 32, 64):
        for block in range(3):
            layers.append(Block(inputs, outputs, 2 if block == 0 and outputs > 16 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Layer(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.seen = torch.tril(torch.ones(length, length)).bool()

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            w = (q @ k.transpose(-1, -2)) * (c // self.heads) ** -0.5
            y = w.masked_fill(~self.seen[:t, :t], float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """4 layers of width 128, 4 heads, 128 positions, 256 tokens, tied head."""

    def __init__(self, tokens=256, length=128, width=128):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*[Layer(width, 4, length) for _ in range(4)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        h = self.tokens(x) + self.places.weight[:x.shape[1]]
        return (self.norm(self.layers(h)) @ self.tokens.weight.t()).flatten(0, 1)


MODELS = {"mlp": (mlp, (784,)), "lenet": (lenet, (1, 28, 28)), "resnet20": (resnet20, (3, 32, 32)),
          "gpt": (Gpt, (128,))}


def steps(rank, name, towers, rows, layout, port, out):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if towers > 1:
        dist.init_process_group("gloo", rank=rank, world_size=towers,
                                init_method=f"tcp://127.0.0.1:{port}")
    make, shape = MODELS[name]
    if name == "gpt":
        x, y = torch.randint(0, 256, (rows,) + shape), torch.randint(0, 256, (rows * shape[0],))
    else:
        x, y = torch.rand((rows,) + shape), torch.randint(0, 10, (rows,))
    model = make()
    if x.dim() == 4:
        form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        model, x = model.to(memory_format=form), x.to(memory_format=form)
    optimizer = (torch.optim.AdamW(model.parameters(), lr=1e-3) if name == "gpt" else
                 torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
    if towers > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True,
                                                    broadcast_buffers=False)
    seconds = []
    for _ in range(40):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        out.put(statistics.median(seconds[10:]))
    if towers > 1:
        dist.barrier()
        dist.destroy_process_group()


def main():
    name = sys.argv[1]
    towers = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rows = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    best = None
    for i, layout in enumerate(["nchw", "nhwc"] if len(MODELS[name][1]) == 3 else ["rows"]):
        out = mp.get_context("spawn").SimpleQueue()
        mp.spawn(steps, (name, towers, rows, layout, 29511 + 10 * towers + i, out), nprocs=towers)
        found = (out.get() * 1e6, layout)
        best = found if best is None or found < best else best
    print(f"{best[0]:.1f} {best[1]} {torch.__version__}")


if __name__ == "__main__":
    main()
