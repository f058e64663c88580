#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's steps of bench_gpu's work on GPU 0, beside bench_gpu's.

torch_gpu.py [BENCH_GPU.json [OUT.json]]: the work that the first file lists, or all of it.
A step is zero_grad, forward, backward and SGD with momentum on data that stays on the GPU; the
host waits once a round, of which the median counts. Eager, and one captured CUDA graph a step
("graph"); lenet in the better of both memory layouts. Exit status 77: no PyTorch with CUDA.
"""
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

WARM_UP, CALLS, ROUNDS = 20, 100, 5


class Mlp(nn.Module):
    image = (784,)

    def __init__(self):
        super().__init__()
        self.f1, self.f2, self.f3 = nn.Linear(784, 256), nn.Linear(256, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.f3(F.relu(self.f2(F.relu(self.f1(x)))))


class LeNet(nn.Module):
    image = (1, 28, 28)

    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.f3(F.relu(self.f2(F.relu(self.f1(x.flatten(1))))))


def seconds_each(step):
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            step()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - start) / CALLS)
    return statistics.median(rounds)


def measure(model, batch, precision, layout):
    """Seconds of an eager step and of a replayed graph of one (None where capturing fails)."""
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    net = model().cuda()
    x, y = torch.rand((batch, *model.image), device="cuda"), torch.arange(batch, device="cuda") % 10
    if x.dim() == 4:
        net, x = net.to(memory_format=layout), x.to(memory_format=layout)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        # A cache of casts outlives a capture.
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16", cache_enabled=False):
            loss = F.cross_entropy(net(x).float(), y)
        loss.backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    eager = seconds_each(step)
    try:
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            step()
        return eager, seconds_each(graph.replay)
    except RuntimeError as error:
        print(f"no graph: {error}", file=sys.stderr)
        return eager, None


def main():
    if not torch.cuda.is_available():
        print(f"skipped: PyTorch {torch.__version__} has no GPU")
        return 77
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as file:
            work = json.load(file)["steps"]
    else:
        work = [{"model": m, "batch": b, "precision": p}
                for m, batches in (("mlp", (64, 128, 256, 512, 1024)), ("lenet", (64, 128, 256, 512)))
                for b in batches for p in ("f32", "tf32", "bf16")]
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name(0)}; us a step")
    print(f"{'model':6} {'batch':>5} {'in':5} {'Belfry':>10} {'eager':>10} {'graph':>10} {'eager / Belfry':>15}")
    rows = []
    for w in work:
        if w["model"] == "mlp":
            runs = [measure(Mlp, w["batch"], w["precision"], None)]
        else:
            runs = [measure(LeNet, w["batch"], w["precision"], layout)
                    for layout in (torch.contiguous_format, torch.channels_last)]
        eager = 1e6 * min(r[0] for r in runs)
        graphs = [1e6 * r[1] for r in runs if r[1] is not None]
        rows.append({"model": w["model"], "batch": w["batch"], "precision": w["precision"],
                     "eager_us": eager, "graph_us": min(graphs) if graphs else None})
        ours = w.get("step_us")
        print(f"{w['model']:6} {w['batch']:5} {w['precision']:5} "
              f"{f'{ours:.1f}' if ours else '-':>10} {eager:10.1f} "
              f"{f'{min(graphs):.1f}' if graphs else '-':>10} "
              f"{f'{eager / ours:.2f}' if ours else '-':>15}", flush=True)
        if len(sys.argv) > 2:  # what there is, should the time run out
            with open(sys.argv[2], "w", encoding="utf-8") as file:
                json.dump({"torch": torch.__version__, "steps": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
