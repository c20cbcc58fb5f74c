#!/usr/bin/env python3
"""Runs every command whose output is shown in README.md and docs/, and names the lines that are not printed so.

    python3 scripts/check_docs.py target/release/leanburn [SECONDS]

A line of three dots, or three dots within a line, stand for anything. Times that depend on the machine count as equal.
What `leanburn measure` prints depends a little on when two threads allocate: its numbers are equal within 2 % or 0.5. Files that a block
shows by `cat` are there for its next command. The ladder of docs/memory-savers.md is left out: it is measured. Exit code 1
if a line differs.

A development build takes ten times as long. With SECONDS, a command that takes a tenth of them, or is not done when they are over, is
left out and named.
"""

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


def is_printed(line, printed):
    pattern = re.escape(TIMES.sub(r"\1", line)).replace(r"\.\.\.", ".*")
    return any(re.fullmatch(pattern, other) for other in printed)


def check(path, root, command, folder, seconds, end):
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
        try:
            ended = subprocess.run([command, *words[1:]], cwd=place, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            print(f"{path.relative_to(root)}: left out, no time: {line}", flush=True)
            continue
        printed = [TIMES.sub(r"\1", text) for text in (ended.stdout + ended.stderr).splitlines()]
        for text in shown:
            if not is_printed(text, printed) and not (words[1] == "measure" and is_measured(text, printed)):
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
    with tempfile.TemporaryDirectory() as folder:
        pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
        differ = sum(check(page, root, command, pathlib.Path(folder), seconds, end) for page in pages)
    print(f"{differ} lines differ")
    sys.exit(1 if differ else 0)


main()
