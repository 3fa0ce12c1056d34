#!/usr/bin/env python3
"""Checks what a compiler does not: the borders of the rooms and the manners of the files.

Usage: check_rooms.py [ROOT]. Prints one line per fault; the exit status is 1 when there is one.

- A room includes only itself and rooms below it; tests of a room likewise.
- No source file is longer than 1,000 lines.
- A header opens with a comment and has #pragma once; a public header has no other conditions.
- No paths of one machine, no reminders of unfinished work.
"""

import os
import re
import sys

ROOMS = ["base", "gguf", "tensor", "text", "device", "cache", "model", "plan", "runtime",
         "engine", "server", "apps"]
LEVEL = {room: level for level, room in enumerate(ROOMS)}
MOST_LINES = 1000
SOURCE_FOLDERS = ["apps", "bench", "cmake", "fuzz", "include", "src", "tests", "tools", "web"]
SOURCE_ENDINGS = (".cpp", ".h", ".def", ".py", ".sh", ".cmake", ".txt", ".comp", ".js",
                  ".mjs", ".css", ".html")
CPP_ENDINGS = (".cpp", ".h", ".def")

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef)\b")
# Put together from parts, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.~])/(" + "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me",
                                                        "tm" + "p"]) + r")/?(?=[\w.\"' )]|$)")
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")


def room_of(path):
    """Room of a path relative to the root, or None where borders do not count."""
    parts = path.split("/")
    if parts[0] == "apps" or parts[:2] == ["tests", "cli"]:
        return "apps"
    if parts[0] in ("src", "tests") and len(parts) > 2 and parts[1] in LEVEL:
        return parts[1]
    return None


def room_of_include(name):
    """Room that an include names, or None for what belongs to no room."""
    first = name.split("/")[0]
    return first if first in LEVEL else None



def check_includes(path, lines, public):
    room = room_of(path)
    in_public = path.startswith("include/")
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1)
        if in_public:
            if name not in public:
                yield number, f'public header includes "{name}", which is not public'
            continue
        if room is None or name in public:
            continue
        target = "apps" if name.startswith("strata/") else room_of_include(name)
        if target is not None and LEVEL[target] > LEVEL[room]:
            yield number, f'room {room} includes "{name}" of room {target}, which stands above it'
        if path.startswith("src/") and name.startswith("tests/"):
            yield number, f'"{name}" belongs to the tests'


def check_header(path, lines):
    if not lines or not lines[0].startswith("//"):
        yield 1, "a header opens with a comment that says what it is for"
    if path.endswith(".h") and not any(line.strip() == "#pragma once" for line in lines):
        yield 1, "#pragma once is missing"
    if path.startswith("include/"):
        for number, line in enumerate(lines, 1):
            if CONDITION.match(line):
                yield number, "a public header does not depend on how it is built"


def check_file(path, lines, public):
    if len(lines) > MOST_LINES:
        yield MOST_LINES, f"{len(lines)} lines; a file of more than {MOST_LINES} is split"
    if path.endswith(CPP_ENDINGS):
        yield from check_includes(path, lines, public)
    if path.endswith((".h", ".def")):
        yield from check_header(path, lines)
    for number, line in enumerate(lines, 1):
        if MACHINE_PATH.search(line):
            yield number, "names a path of one machine: " + line.strip()
        if UNFINISHED.search(line):
            yield number, "unfinished: " + line.strip()


def files_below(root):
    for folder in SOURCE_FOLDERS:
        for where, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = [f for f in folders if f != "node_modules"]
            folders[:] = sorted(f for f in folders if f not in ("__pycache__", "out", "seeds"))
            for name in sorted(names):
                if name.endswith(SOURCE_ENDINGS):
                    yield os.path.relpath(os.path.join(where, name), root)
    for name in ("CMakeLists.txt", "CMakePresets.json", "Makefile", "README.md"):
        if os.path.exists(os.path.join(root, name)):
            yield name


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    paths = [path.replace(os.sep, "/") for path in files_below(root)]
    public = {path[len("include/"):] for path in paths if path.startswith("include/")}
    faults = 0
    for path in paths:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        for number, text in check_file(path, lines, public):
            print(f"{path}:{number}: {text}")
            faults += 1
    print(f"{len(paths)} files, {faults} faults")
    if not paths:
        print("no sources below " + root)
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
