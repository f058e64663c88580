#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's steps of bench_step's work on the CPU: one line a run.

torch_steps.py MODEL [TOWERS [ROWS]]: MODEL is mlp or lenet, ROWS are a tower's (64). Prints
"STEP_US LAYOUT VERSION", the median of 40 steps after 10, of the better of NCHW and NHWC. A step is
zero_grad, forward, backward and SGD with momentum, eager, with one thread a tower; several towers
are DistributedDataParallel with Gloo. Exit status 77: there is no PyTorch.
"""
import os
import statistics
import sys
import time

if any(name.startswith("OPENBLAS_") for name in os.environ):  # they slow it on new processors
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    os.execve(sys.executable, [sys.executable] + sys.argv, kept)
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


MODELS = {"mlp": (mlp, (784,)), "lenet": (lenet, (1, 28, 28))}


def steps(rank, name, towers, rows, layout, port, out):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if towers > 1:
        dist.init_process_group("gloo", rank=rank, world_size=towers,
                                init_method=f"tcp://127.0.0.1:{port}")
    make, shape = MODELS[name]
    x, y = torch.rand((rows,) + shape), torch.randint(0, 10, (rows,))
    model = make()
    if x.dim() == 4:
        form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        model, x = model.to(memory_format=form), x.to(memory_format=form)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if towers > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    seconds = []
    for _ in range(50):
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
    for i, layout in enumerate(["nchw", "nhwc"] if name == "lenet" else ["rows"]):
        out = mp.get_context("spawn").SimpleQueue()
        mp.spawn(steps, (name, towers, rows, layout, 29511 + 10 * towers + i, out), nprocs=towers)
        found = (out.get() * 1e6, layout)
        best = found if best is None or found < best else best
    print(f"{best[0]:.1f} {best[1]} {torch.__version__}")


if __name__ == "__main__":
    main()
