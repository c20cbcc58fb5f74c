#!/usr/bin/env python3
"""Finds modules of the workspace that import each other in a circle.

A module is a file. It imports the file in which an item that it names by `crate::` or `super::` is defined: `mod.rs` and
`lib.rs` that only hand an item on are skipped, so that a parent that re-exports its children makes no circle. Tests are
ignored. Prints every circle; exit status 1 if there is one.

    python3 scripts/check_imports.py [CRATE_FOLDER ...]
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def without_tests_and_comments(text):
    text = re.sub(r"//[^\n]*", "", text)
    # `mod tests { ... }` and the like stand at the end of a file here
    return re.split(r"\n\s*#\[cfg\(test\)\]\s*\n\s*(?:pub(?:\([a-z]+\))? )?mod \w+ \{", text)[0]


def module_path(source, file):
    parts = list(file.relative_to(source).with_suffix("").parts)
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return tuple(parts)


def expand(tree):
    """The paths of a use tree, each a tuple; `*` and `self` stay, `as` is dropped."""
    tree = tree.strip()
    brace = tree.find("{")
    if "}" not in tree:
        return [tuple(part.strip() for part in re.sub(r"\s+as\s+\w+$", "", tree).split("::"))]
    head = tuple(part.strip() for part in tree[:brace].rstrip(": \n").split("::") if part.strip())
    inner, depth, start, paths = tree[brace + 1 : tree.rindex("}")], 0, 0, []
    for at, letter in enumerate(inner + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if inner[start:at].strip():
                paths += [head + path for path in expand(inner[start:at])]
            start = at + 1
    return paths


class Crate:
    def __init__(self, folder):
        self.source = folder / "src"
        self.files, self.reexports, self.paths = {}, {}, {}
        for file in sorted(self.source.rglob("*.rs")):
            if "tests" in file.stem or file.name == "main.rs":
                continue
            path = module_path(self.source, file)
            text = without_tests_and_comments(file.read_text())
            self.files[path] = file
            uses = re.findall(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", text)
            self.reexports[path] = [found for public, tree in uses if public for found in expand(tree)]
            self.paths[path] = [found for public, tree in uses if not public for found in expand(tree)]
            # paths in the code itself: `crate::a::b`, `super::c`
            body = re.sub(r"\buse\s+[^;]+;", "", text)
            for found in re.findall(r"\b((?:crate|super)(?:::\w+)+)", body):
                self.paths[path].append(tuple(found.split("::")))

    def absolute(self, module, path):
        """A path from the root of the crate; none for other crates."""
        if path[0] == "crate":
            return path[1:]
        if path[0] in ("super", "self"):
            at, rest = module, path
            while rest and rest[0] in ("super", "self"):
                at = at[:-1] if rest[0] == "super" else at
                rest = rest[1:]
            return at + rest
        if module + path[:1] in self.files:
            return module + path
        return None

    def defining(self, path, seen=()):
        """The modules in which an item is defined, through re-exports."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.files:
                break
        module, rest = path[:length], path[length:]
        if not rest or rest[0] in ("self",):
            return {module}
        item, found = rest[0], set()
        for reexport in self.reexports[module]:
            there = self.absolute(module, reexport)
            if there is None or (module, reexport) in seen:
                continue
            step = seen + ((module, reexport),)
            if reexport[-1] == "*":
                found |= {m for m in self.defining(there[:-1] + (item,), step) if self.defines(m, item)}
            elif reexport[-1] == item or item == "*":
                found |= self.defining(there, step)
        return found or {module}

    def defines(self, module, item):
        text = without_tests_and_comments(self.files[module].read_text())
        return re.search(r"\b(?:fn|struct|enum|trait|type|const|static|mod|macro_rules!|union)\s+" + item + r"\b", text)

    def graph(self):
        graph = {}
        for module, paths in self.paths.items():
            targets = set()
            for path in paths:
                there = self.absolute(module, path)
                if there is not None:
                    targets |= self.defining(there)
            graph[module] = targets - {module}
        return graph


def circles(graph):
    """The strongly connected components of more than one module (Tarjan)."""
    index, low, stack, found, count = {}, {}, [], [], [0]

    def visit(node):
        index[node] = low[node] = count[0]
        count[0] += 1
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = []
            while True:
                component.append(stack.pop())
                if component[-1] == node:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def main():
    sys.setrecursionlimit(10_000)
    named = [Path(argument) for argument in sys.argv[1:]]
    folders = named or [ROOT] + sorted(path.parent for path in (ROOT / "crates").glob("*/Cargo.toml"))
    count = 0
    for folder in folders:
        graph = Crate(folder).graph()
        for circle in circles(graph):
            count += 1
            print(f"{folder.name}:")
            for module in circle:
                inside = sorted("::".join(t) or "the root" for t in graph[module] if t in circle)
                print(f"  {'::'.join(module) or 'the root'} imports {', '.join(inside)}")
    print(f"{count} circles" if count else "no circles")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
