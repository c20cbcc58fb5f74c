#!/usr/bin/env python3
"""Checks that every package of Cargo.lock may be used under a licence of the list below.

    python3 scripts/check_licences.py

Reads `cargo metadata`, for all targets and features, without the network. Prints each package whose licence is none of the
list or unknown; exit status 1 if there is one. Advisories are another matter: they need RustSec's database (`cargo deny check
advisories`).
"""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Each lets a program be distributed under MIT or Apache-2.0. MPL-2.0 asks for the sources of changed files, and none is changed.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "CDLA-Permissive-2.0", "ISC", "MIT", "MPL-2.0", "NCSA", "Unicode-3.0", "Unlicense", "Zlib",
}  # fmt: skip

# Packages that name a file and no licence, as it was read in that version.
READ = {("cfg_block", "0.1.1"): "Apache-2.0"}


def is_allowed(expression):
    """Whether an SPDX expression can be met: OR is a choice, AND wants both and binds closer, WITH belongs to its licence.

    >>> [is_allowed(e) for e in ("MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR GPL-3.0) AND ISC")]
    [True, True, True, True]
    >>> [is_allowed(e) for e in ("GPL-3.0", "MIT AND GPL-3.0", "MIT AND (GPL-3.0 OR AGPL-3.0)", "MIT WITH GCC-exception-3.1")]
    [False, False, False, False]
    >>> [is_allowed(e) for e in ("GPL-3.0 AND MIT OR ISC", "ISC OR MIT AND GPL-3.0", "Apache-2.0 WITH LLVM-exception AND MIT")]
    [True, True, True]
    >>> is_allowed("MIT MIT")
    Traceback (most recent call last):
    ValueError: MIT MIT
    """
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def choice():
        allowed = both()
        while words and words[0] == "OR":
            words.pop(0)
            allowed = both() or allowed
        return allowed

    def both():
        allowed = licence()
        while words and words[0] == "AND":
            words.pop(0)
            allowed = licence() and allowed
        return allowed

    def licence():
        word = words.pop(0) if words else ""
        if word == "(":
            allowed = choice()
            if not words or words.pop(0) != ")":
                raise ValueError(expression)
            return allowed
        if words and words[0] == "WITH":
            words.pop(0)
            word = f"{word} WITH {words.pop(0) if words else ''}"
        return word in ALLOWED

    allowed = choice()
    if words:
        raise ValueError(expression)
    return allowed


def main():
    if doctest.testmod().failed:
        sys.exit(1)
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked", "--offline"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    wrong = 0
    for package in packages:
        name, version = package["name"], package["version"]
        expression = package["license"] or READ.get((name, version))
        if expression is None or not is_allowed(expression):
            wrong += 1
            print(f"{name} {version}: {expression or package['license_file'] or 'no licence'}")
    print(f"{len(packages)} packages, {wrong} without a licence of the list")
    sys.exit(1 if wrong else 0)


main()
