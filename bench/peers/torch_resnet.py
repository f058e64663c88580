#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A resnet20 of Belfry and of PyTorch from equal weights along equal batches.

torch_resnet.py BENCH_FOLLOW [--cifar FILE] [--updates N] [--batch B]: SGD with momentum. PyTorch
(NCHW) trains; at its own weights before each update Belfry gives loss, gradient and running
statistics, and PyTorch with NHWC its gradient. Then all train freely: Belfry, and PyTorch with NHWC,
beside PyTorch with NCHW. Rows go to Belfry as npy, weights as safetensors, and come back so. FILE is
a binary file of CIFAR-10, plain or gzip; else images are made up. Exit status 1 where a loss differs
by more than 1e-5, a gradient by more than 2e-3 of its norm, their median by more than 2e-5, or
running statistics by more than 1e-5 of their norm; 77: no PyTorch here.

Of the 12 million values before a ReLU some lie so near 0 that rounding decides whether they pass:
one that falls on the other side moves the gradient by 1e-3 of its norm, PyTorch's own from layout to
layout too. So batch norms start at a bias of 2 (--norm-bias), where 1 value in 40 is below 0 and few
are near it: then what is compared is arithmetic.
"""
import argparse
import gzip
import pathlib
import statistics
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torch.nn.functional as F
    from torch import nn

    from tensor_files import channels_first, channels_last, read_safetensors, write_safetensors
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LOSS, GRADIENT, MEDIAN, RUNNING = 1e-5, 2e-3, 2e-5, 1e-5


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet20(nn.Module):
    """He et al. 2015, for CIFAR, with projections. Names are those of Belfry's variables."""

    def __init__(self, bias=0.0):
        super().__init__()
        self.conv1, self.bn1 = conv(3, 16, 3), nn.BatchNorm2d(16)
        stage = lambda i, o, s: nn.Sequential(Block(i, o, s), Block(o, o, 1), Block(o, o, 1))
        self.layer1, self.layer2, self.layer3 = stage(16, 16, 1), stage(16, 32, 2), stage(32, 64, 2)
        self.fc = nn.Linear(64, 10)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d):  # not 1 and 0: one that is forgotten shows
                nn.init.normal_(module.weight, 1.0, 0.1)
                nn.init.normal_(module.bias, bias, 0.1)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))

    def belfry(self):
        """Parameters and running statistics as Belfry has them."""
        named = {n: t for n, t in self.state_dict().items() if not n.endswith("num_batches_tracked")}
        return {n: channels_last(t.detach().clone(memory_format=torch.contiguous_format))
                for n, t in named.items()}


CONFIG = """towers = "cpu:1"
threads_per_tower = 1
batch = {batch}
[model]
name = "resnet20"
[data]
name = "npy"
x = "x.npy"
y = "y.npy"
channels_first = true
classes = 10
[loader]
shuffle = false
[optimizer]
name = "momentum"
lr = {rate}
momentum = 0.9
"""


def rows_of(cifar, count):
    """Images [count, 3, 32, 32] f32 around 0, and labels."""
    if cifar:
        raw = (gzip.open if cifar.endswith(".gz") else open)(cifar, "rb").read()
        records = numpy.frombuffer(raw, numpy.uint8).reshape(-1, 3073)
        records = records[numpy.arange(count) % len(records)]
        pixels = records[:, 1:].reshape(-1, 3, 32, 32).astype(numpy.float32)
        return (pixels / numpy.float32(255) - numpy.float32(0.47)) * numpy.float32(4), records[:, 0]
    # What can be learnt: coarse patterns of the classes under noise.
    random = numpy.random.default_rng(1)
    labels = random.integers(0, 10, count)
    patterns = random.standard_normal((10, 3, 8, 8)).repeat(4, 2).repeat(4, 3)
    return (patterns[labels] + random.standard_normal((count, 3, 32, 32))).astype("f4"), labels


class Training:
    """PyTorch along the batches, in one memory format."""

    def __init__(self, start, form, rate):
        self.net, self.form = ResNet20(), form
        self.net.load_state_dict(start)
        self.net.to(memory_format=form)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=rate, momentum=0.9)

    def loss(self, x, y):
        """The gradient goes to the parameters."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x.contiguous(memory_format=self.form)), y)
        loss.backward()
        return loss.item()

    def gradient(self):
        return {n: p.grad.clone() for n, p in self.net.named_parameters()}

    def step(self, x, y):
        loss = self.loss(x, y)
        self.optimizer.step()
        return loss


def distance(found, expected):
    """|found - expected| / |expected| over all tensors, in double."""
    difference = sum(((found[n].double() - t.double()) ** 2).sum() for n, t in expected.items())
    return (difference / sum((t.double() ** 2).sum() for t in expected.values())).item() ** 0.5


def relative(found, expected):
    return abs(found - expected) / abs(expected)


def table(losses, free, theirs, apart, theirs_apart):
    print("PyTorch with NCHW, and how far from it PyTorch with NHWC and Belfry are\n\n"
          "| update | gradient at its weights: NHWC | Belfry | loss, trained freely | NHWC | Belfry |\n"
          "|---|---|---|---|---|---|")
    for k, loss in enumerate(losses):
        print(f"| {k + 1} | {theirs_apart[k]:.1e} | {apart[k]:.1e} | {loss:.6f} | "
              f"{relative(theirs[k], loss):.1e} | {relative(free[k], loss):.1e} |")


class Folder:
    """What Belfry reads and writes, in a folder."""

    def __init__(self, at, command, images, labels, batch, rate):
        self.at, self.command, self.updates = at, command, len(images) // batch
        numpy.save(at / "x.npy", images)
        numpy.save(at / "y.npy", labels.astype("i4"))
        (at / "config.toml").write_text(CONFIG.format(batch=batch, rate=rate))
        (at / "weights").mkdir()
        (at / "seen").mkdir()

    def keep(self, k, net):
        write_safetensors(self.at / "weights" / f"{k}.safetensors", net.belfry())

    def run(self, *arguments):
        done = subprocess.run([self.command, *map(str, arguments), str(self.updates)], check=True,
                              stdout=subprocess.PIPE, text=True)
        return [float(line) for line in done.stdout.split()]

    def given(self):
        """Losses at the weights kept, and gradients with running statistics."""
        losses = self.run("--gradients", self.at / "config.toml", self.at / "weights",
                          self.at / "seen")
        return losses, [{n: channels_first(t) for n, t in
                         read_safetensors(self.at / "seen" / f"{k}.safetensors").items()}
                        for k in range(len(losses))]

    def free(self):
        return self.run(self.at / "config.toml", self.at / "weights" / "0.safetensors",
                        self.at / "end.safetensors")


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench_follow")
    parser.add_argument("--cifar", default="")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--norm-bias", type=float, default=2.0)
    return parser.parse_args()


def main():
    a = options()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images, labels = rows_of(a.cifar, a.updates * a.batch)
    batches = [(torch.from_numpy(images[k : k + a.batch]),
                torch.from_numpy(labels[k : k + a.batch].astype("i8")))
               for k in range(0, len(images), a.batch)]
    start = {n: t.clone() for n, t in ResNet20(a.norm_bias).state_dict().items()}
    first, other = (Training(start, torch.contiguous_format, a.rate),
                    Training(start, torch.channels_last, a.rate))
    losses, gradients, running, theirs_apart = [], [], [], []
    with tempfile.TemporaryDirectory() as at:
        folder = Folder(pathlib.Path(at), a.bench_follow, images, labels, a.batch, a.rate)
        for k, (x, y) in enumerate(batches):
            folder.keep(k, first.net)
            other.net.load_state_dict(first.net.state_dict())
            other.loss(x, y)
            losses.append(first.step(x, y))
            gradients.append(first.gradient())
            theirs_apart.append(distance(other.gradient(), gradients[-1]))
            running.append({n: t for n, t in first.net.belfry().items() if "running" in n})
        given, seen = folder.given()
        free = folder.free()
    other = Training(start, torch.channels_last, a.rate)
    theirs = [other.step(x, y) for x, y in batches]
    apart = [distance(s, g) for s, g in zip(seen, gradients)]
    table(losses, free, theirs, apart, theirs_apart)
    loss = max(map(relative, given, losses))
    states = max(distance(s, r) for s, r in zip(seen, running))
    median = statistics.median(apart)
    print(f"\ntorch {torch.__version__}, {a.updates} updates of {a.batch} rows, at PyTorch's weights: "
          f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, largest relative difference {loss:.1e} "
          f"(bound {LOSS:.0e}); gradient {max(apart):.1e} of its norm ({GRADIENT:.0e}), median "
          f"{median:.1e} ({MEDIAN:.0e}), PyTorch with NHWC {max(theirs_apart):.1e}, "
          f"{statistics.median(theirs_apart):.1e}; running statistics {states:.1e} "
          f"({RUNNING:.0e})")
    whole = len(given) == len(free) == len(losses) == a.updates
    good = loss <= LOSS and max(apart) <= GRADIENT and median <= MEDIAN and states <= RUNNING
    return 0 if whole and good else 1


if __name__ == "__main__":
    sys.exit(main())
