#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A gpt of Belfry and of PyTorch from equal weights along equal batches.

torch_gpt.py BENCH_FOLLOW [--updates N] [--batch B]: 4 x 128 on 128 bytes, AdamW. Weights go to
Belfry as safetensors and come back so. Prints the largest relative difference of the losses and of
the weights; exit status 1 where losses differ by more than 1e-5, 77: no PyTorch here.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torch.nn.functional as F
    from torch import nn

    from tensor_files import read_safetensors, write_safetensors
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 4, 128, 4, 128, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.ModuleDict(
            {"qkv": nn.Linear(WIDTH, 3 * WIDTH), "out": nn.Linear(WIDTH, WIDTH)}
        )
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        rows, length, _ = x.shape
        qkv = self.attention["qkv"](self.norm1(x))
        q, k, v = qkv.view(rows, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (WIDTH // HEADS) ** -0.5
        seen = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.attention["out"](seen.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Names are those of Belfry's variables."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.block = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.normal_(p, std=0.01)  # not 0: a forgotten bias shows

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        mask = torch.tril(torch.ones(tokens.shape[1], tokens.shape[1])).bool()
        for block in self.block:
            x = block(x, mask)
        return self.norm(x) @ self.tokens.weight.t()


CONFIG = """towers = "cpu:1"
batch = {batch}
[model]
name = "gpt"
layers = {layers}
width = {width}
heads = {heads}
[data]
name = "tokens"
files = ["tokens.u16"]
vocabulary = {vocabulary}
context = {context}
[loader]
shuffle = false
[optimizer]
name = "adamw"
lr = 1e-3
weight_decay = 0.01
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench_follow")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    a = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Gpt()
    # Tokens that can be learnt: each is one of four that its predecessor allows.
    random = numpy.random.default_rng(1)
    stream = [0]
    for step in random.integers(0, 4, a.updates * a.batch * CONTEXT):
        stream.append((stream[-1] * 5 + int(step) * 7 + 1) % VOCABULARY)
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        numpy.array(stream, "<u2").tofile(at / "tokens.u16")
        write_safetensors(at / "start.safetensors", dict(net.named_parameters()))
        (at / "config.toml").write_text(
            CONFIG.format(batch=a.batch, layers=LAYERS, width=WIDTH, heads=HEADS,
                          vocabulary=VOCABULARY, context=CONTEXT)
        )
        files = [str(at / f) for f in ("config.toml", "start.safetensors", "end.safetensors")]
        lines = subprocess.run([a.bench_follow, *files, str(a.updates)], check=True,
                               capture_output=True, text=True).stdout
        theirs = read_safetensors(at / "end.safetensors")
    losses = [float(line) for line in lines.split()]
    rows = torch.tensor(stream[:-1]).view(a.updates, a.batch, CONTEXT)
    targets = torch.tensor(stream[1:]).view(a.updates, a.batch, CONTEXT)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    worst = 0.0
    for k in range(a.updates):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(rows[k]).flatten(0, 1), targets[k].flatten())
        loss.backward()
        optimizer.step()
        worst = max(worst, abs(loss.item() - losses[k]) / abs(loss.item()))
    distance = sum(((p - theirs[n]) ** 2).sum().item() for n, p in net.named_parameters())
    norm = sum((p**2).sum().item() for p in net.parameters())
    print(f"torch {torch.__version__}, {a.updates} AdamW updates, batch {a.batch}: loss "
          f"{losses[0]:.5f} -> {losses[-1]:.5f}, largest relative difference of a loss "
          f"{worst:.2e}, of the weights at the end {(distance / norm) ** 0.5:.2e}")
    return 0 if len(losses) == a.updates and worst <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
