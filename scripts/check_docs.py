#!/usr/bin/env python3
"""Runs every command whose output is shown in README.md and docs/, and names the lines that are not printed so.

    python3 scripts/check_docs.py target/release/leanburn [SECONDS]

A line of three dots, or three dots within a line, stand for anything. Times that depend on the machine count as equal.
What `leanburn measure` prints depends a little on when two threads allocate: its numbers are equal within 2 % or 0.5. Files that a block
shows by `cat` are there for its next command. The ladder of docs/memory-savers.md is left out: it is measured. Exit code 1
if a line differs.

A plan for the CPU depends on the processor: on its caches, which matrix products are blocked by, and on AVX-512. The commands see the
caches of the documents' processor, whichever this one has (in a mount namespace of their own, on Linux), and take no tiles of AMX. Where that
cannot be, numbers count as equal, and the check says so.

A development build takes ten times as long. With SECONDS, a command that takes a tenth of them, or is not done when they are over, is
left out and named.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

TIMES = re.compile(r"(traced in|searched in|step  )\s*[\d.]+ (ms|s)\b(?!.*by the device)")


def blocks(text):
    """Each command of the console blocks, with the lines shown below it."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            yield command, shown


NUMBER = re.compile(r"\d+\.\d+")


def is_measured(line, printed):
    numbers = [float(number) for number in NUMBER.findall(line)]
    for other in printed:
        found = [float(number) for number in NUMBER.findall(other)]
        near = all(abs(a - b) <= max(0.5, 0.02 * a) for a, b in zip(numbers, found))
        words = [re.sub(r"[+-]", "", NUMBER.sub("#", text)).split() for text in (line, other)]
        if words[0] == words[1] and near:
            return True
    return False


# The caches of the processor that the documents' plans are for, AMD EPYC of family 25, model 17: KiB and ways of each level.
CACHES = [(32, 8), (1024, 8), (32 * 1024, 16)]
# A product's scratch is each thread's.
THREADS = {**os.environ, "RAYON_NUM_THREADS": "2"}


def imitate_processor(folder):
    """The words before a command that show it the documents' caches in place of this processor's. None: it cannot be done here."""
    cpus = folder / "cpu"
    for level, (size, ways) in enumerate(CACHES, start=1):
        cache = cpus / f"cpu0/cache/index{level}"
        cache.mkdir(parents=True)
        kind = {"level": level, "type": "Unified", "size": f"{size}K", "ways_of_associativity": ways}
        for name, value in {**kind, "coherency_line_size": 64, "shared_cpu_list": 0}.items():
            (cache / name).write_text(f"{value}\n")
    script = 'mount --bind "$0" /sys/devices/system/cpu && exec "$@"'
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(cpus)]
    information = pathlib.Path("/proc/cpuinfo")
    if not information.is_file() or "avx512f" not in information.read_text() or not shutil.which("unshare"):
        return None
    return words if subprocess.run([*words, "true"], capture_output=True).returncode == 0 else None


def is_printed(line, printed, are_numbers_equal):
    def same(text):
        text = TIMES.sub(r"\1", text)
        return re.sub(r"\s+", " ", re.sub(r"[+-]?\d+(\.\d+)?", "0", text)) if are_numbers_equal else text

    pattern = re.escape(same(line)).replace(r"\.\.\.", ".*")
    return any(re.fullmatch(pattern, same(other)) for other in printed)


def check(path, root, command, folder, seconds, end, processor):
    """How many lines of a page are not printed so."""
    differ = 0
    for line, shown in blocks(path.read_text()):
        words = shlex.split(line)
        if words[0] == "cat":
            (folder / words[1]).write_text("\n".join(shown) + "\n")
            continue
        if words[0] != "leanburn" or "--ladder" in words:
            continue
        place = folder if any((folder / word).is_file() for word in words[1:]) else root
        limit = seconds and min(seconds / 10, end - time.monotonic())
        env = THREADS | ({"LEANBURN_INSTRUCTIONS": "avx512"} if processor else {})
        try:
            ended = subprocess.run([*(processor or []), command, *words[1:]], cwd=place, env=env, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            print(f"{path.relative_to(root)}: left out, no time: {line}", flush=True)
            continue
        printed = (ended.stdout + ended.stderr).splitlines()
        for text in shown:
            if not is_printed(text, printed, processor is None) and not (words[1] == "measure" and is_measured(text, printed)):
                differ += 1
                print(f"{path.relative_to(root)}: {line}\n    {text}", flush=True)
    return differ


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    if len(sys.argv) not in (2, 3) or not shutil.which(sys.argv[1]):
        sys.exit(__doc__)
    seconds = float(sys.argv[2]) if len(sys.argv) == 3 else None
    end = time.monotonic() + (seconds or 0)
    command = str(pathlib.Path(shutil.which(sys.argv[1])).resolve())
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        processor = imitate_processor(folder)
        if processor is None:
            print("numbers are not compared: this processor cannot stand for the documents' one")
        pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
        differ = sum(check(page, root, command, folder, seconds, end, processor) for page in pages)
    print(f"{differ} lines differ")
    sys.exit(1 if differ else 0)


main()
