#!/usr/bin/env python3
"""Packs every crate as `cargo publish` would, without building, and checks what is in the packages.

    python3 scripts/check_packages.py

Each is below the registry's 10 MB, has a README, both licences and nothing but whole files (a link is followed), and no Rust file in it
reads a file that is not in it: by `include_str!` and the like, `#[path]`, or a test that names a path outside its crate. Exit
status 1 if one does. That a package builds is checked by `cargo publish --dry-run --workspace`.
"""

import json
import posixpath
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 10_000_000
NEEDED = ("README.md", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.toml")
INCLUDED = re.compile(r'\binclude(?:_str|_bytes)?!\(\s*"([^"]+)"|#\[path = "([^"]+)"\]')
OUTSIDE = re.compile(r'"((?:\.\./)+[^"]*)"')


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def faults(path):
    """What is wrong with a package, a line each."""
    if path.stat().st_size >= LARGEST:
        yield f"{path.stat().st_size} bytes, at most {LARGEST}"
    with tarfile.open(path) as package:
        members = package.getmembers()
        files = {member.name.split("/", 1)[1]: member for member in members}
        yield from (f"{name} is missing" for name in NEEDED if name not in files)
        yield from (f"{name} is no file" for name, member in files.items() if not member.isfile())
        for name, member in files.items():
            if not name.endswith(".rs"):
                continue
            text = package.extractfile(member).read().decode()
            here = posixpath.dirname(name)
            for found in INCLUDED.finditer(text):
                read = posixpath.normpath(posixpath.join(here, found[1] or found[2]))
                if read not in files:
                    yield f"{name} reads {read}, which is left out"
            named = [other[1] for other in OUTSIDE.finditer(INCLUDED.sub("", text))]
            # Cargo runs tests in the folder of their crate, which is crates/NAME.
            beyond = [other for other in named if other.startswith("../..")]
            yield from (f"{name} names {other}" for other in beyond if (ROOT / (other + "/").split("/")[2]).exists())


def main():
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"))
    cargo("package", "--workspace", "--no-verify", "--allow-dirty", "--locked", "--offline", "--quiet")
    wrong = 0
    for package in metadata["packages"]:
        path = Path(metadata["target_directory"], "package", f"{package['name']}-{package['version']}.crate")
        found = list(faults(path))
        wrong += len(found)
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {package['name']}")
        print("".join(f"    {fault}\n" for fault in found), end="")
    sys.exit(1 if wrong else 0)


main()
