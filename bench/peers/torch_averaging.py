#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's work of bench_averaging on the CPU: Gloo's all-reduce, the division and SGD with momentum.

torch_averaging.py [TOWERS [FLOATS]]: processes (2) of one thread, floats each (26214400). Prints
"STEP_US VERSION", the median of 7 updates after 2. Exit status 77: there is no PyTorch.
"""
import os
import statistics
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def updates(rank, towers, floats, port, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=towers,
                            init_method=f"tcp://127.0.0.1:{port}")
    parameter = torch.zeros(floats, requires_grad=True)
    parameter.grad = torch.ones(floats)
    optimizer = torch.optim.SGD([parameter], lr=1e-3, momentum=0.9)
    seconds = []
    for _ in range(9):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(towers)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        out.put(statistics.median(seconds[2:]))
    dist.barrier()
    dist.destroy_process_group()


def main():
    towers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    floats = int(sys.argv[2]) if len(sys.argv) > 2 else 25 << 20
    out = mp.get_context("spawn").SimpleQueue()
    mp.spawn(updates, (towers, floats, 29600 + os.getpid() % 300, out), nprocs=towers)
    print(f"{1e6 * out.get():.1f} {torch.__version__}")


if __name__ == "__main__":
    main()
