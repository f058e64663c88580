# SPDX-License-Identifier: MIT
"""Where mutants are: what orders or declares in the product's sources. For .ci/mutation."""
import collections
import os
import re
import subprocess

from mutation_tests import EQUIVALENT

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("device", "autodiff", "allreduce", "data", "optim", "towers")
# Executors for tests, and what stands for one: their waits are locks of their own.
LEFT_OUT = ("device/cpu/lazy_stream", "device/cpu/threaded_stream", "device/cpu/thread_host")

CALL = re.compile(r"\b(wait|record|synchronize|notify|barrier|meet|leave|host_access|publish|observe|"
                  r"wait_host)\s*(\()")
TERM = re.compile(r"\.\s*(reads|writes)\s*(\()")
ARRAYS = re.compile(r"\barrays\(V& \w+\)[^{;]*\{")
# CUDA's and NCCL's own, as the plug-in calls them.
VENDOR = re.compile(r"(?:\bBELFRY_CUDA\s*(\()\w+,\s*|(?:\bchecked|\(\*this\))\s*(\())"
                    r"(cudaEventRecordWithFlags|cudaStreamWaitEvent|cudaStreamSynchronize|"
                    r"cudaEventSynchronize|ncclGroupStart|ncclGroupEnd)\b")
HOST_ONLY = ("notify", "publish", "observe")

KINDS = ("cuda", "wait", "wait_host", "record", "meet", "barrier", "publish", "observe", "notify",
         "host_access", "synchronize", "reads", "writes")

Mutant = collections.namedtuple("Mutant", "file line kind begin end text")
Skipped = collections.namedtuple("Skipped", "file line text reason")


def masked(source):
    """The source with comments and literals blanked, of the same length."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        # 1'000 is no character literal.
        if match.group().startswith("'") and match.start() and source[match.start() - 1].isalnum():
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    return pattern.sub(blank, source)


def closing(mask, at):
    """Index behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(mask)):
        depth += (mask[i] in "([{") - (mask[i] in ")]}")
        if depth == 0:
            return i + 1
    raise ValueError("unbalanced brackets")


def opening(mask, at):
    """Index of the bracket that the one at `at` closes."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (mask[i] in ")]}") - (mask[i] in "([{")
        if depth == 0:
            return i
    raise ValueError("unbalanced brackets")


def receiver_begin(mask, at):
    """Where the postfix expression begins whose last name begins at `at`."""
    while True:
        i = at
        while i and mask[i - 1].isspace():
            i -= 1
        if mask[i - 2:i] in ("->", "::"):
            i -= 2
        elif i and mask[i - 1] == ".":
            i -= 1
        else:
            return at
        while i and mask[i - 1].isspace():
            i -= 1
        while i and mask[i - 1] in ")]":
            i = opening(mask, i - 1)
        while i and (mask[i - 1].isalnum() or mask[i - 1] == "_"):
            i -= 1
        at = i


def line_of(source, at):
    return source.count("\n", 0, at) + 1


def squeezed(text):
    return " ".join(text.split())


def calls(file, source, mask):
    for match in CALL.finditer(mask):
        name, begin = match.group(1), receiver_begin(mask, match.start(1))
        end = closing(mask, match.start(2))
        receiver = mask[begin:match.start(1)].strip()
        before = mask[:begin].rstrip()
        behind = mask[end:].lstrip()
        line, text = line_of(source, match.start(1)), squeezed(source[begin:end])
        # A declaration, a definition, or a function of another meaning.
        if not receiver and name not in ("host_access", "synchronize"):
            continue
        if re.search(r"(\w|&|\*|>|~)$", before) and not re.search(r"\b(return|else|do)$", before):
            continue
        if name in HOST_ONLY and "host" not in receiver:
            continue
        if name == "record" and (source[end - 2:end] == "()" or "tape" in receiver):
            continue
        statement = re.search(r"([;{})]|\belse|\bdo)$", before) and behind.startswith(";")
        if not statement:
            yield Skipped(file, line, text, "its value is used")
            continue
        end = mask.index(";", end) + 1
        yield Mutant(file, line, name, begin, end, text)


def vendor_calls(file, source, mask):
    for match in VENDOR.finditer(mask):
        opens = match.start(1) if match.group(1) else match.start(2)
        end = mask.index(";", closing(mask, opens)) + 1
        yield Mutant(file, line_of(source, match.start()), "cuda", match.start(), end,
                     squeezed(source[match.start():end]))


def terms(file, source, mask):
    # What arrays() names is no range: .ci/checks/wide_accesses counts the accesses it makes.
    arrays = [(m.end() - 1, closing(mask, m.end() - 1)) for m in ARRAYS.finditer(mask)]
    for match in TERM.finditer(mask):
        if any(begin < match.start() < end for begin, end in arrays):
            continue
        end = closing(mask, match.start(2))
        yield Mutant(file, line_of(source, match.start(1)), match.group(1), match.start(), end,
                     squeezed(source[match.start():end]))


def find(only):
    mutants, skipped = [], []
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *FOLDERS], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout.split()
    for file in sorted(set(listed)):
        if not file.endswith((".cpp", ".h")) or file.startswith(LEFT_OUT):
            continue
        if only and not any(file.startswith(o) for o in only):
            continue
        path = os.path.join(ROOT, file)
        if not os.path.exists(path):
            continue
        source = open(path, encoding="utf-8").read()
        mask = masked(source)
        found = sorted([*calls(file, source, mask), *terms(file, source, mask),
                        *vendor_calls(file, source, mask)],
                       key=lambda f: f.line)
        seen = collections.Counter()
        for f in found:
            seen[f.text] += isinstance(f, Mutant)
            reason = EQUIVALENT.get((file, f.text, seen[f.text]))
            if isinstance(f, Mutant) and reason:
                skipped.append(Skipped(file, f.line, f.text, "equivalent: " + reason))
            elif isinstance(f, Mutant):
                mutants.append(f)
        skipped += [f for f in found if isinstance(f, Skipped)]
    return mutants, skipped
