#!/usr/bin/env python3
"""Fails where two files define a type, or a function with a body, of one name in one namespace: linked into one program they are
one name for two things, which no compiler notices. Reads the sources with universal-ctags. A folder of tests is one program, or some
that share names; everything else is linked into one."""
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ("base", "access", "kernels", "model", "store", "engine", "service", "http", "client", "cli")
TYPES = {"class", "struct", "union", "enum"}
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
OF_EACH_PROGRAM = ("::main(", "::LLVMFuzzerTestOneInput(")


def sources(*folders):
    return {path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES}


def definitions(files):
    """{name: {file: line}} of what has external linkage at the level of a namespace: the whole name, with the parameters of a function."""
    command = ["ctags", "--languages=C++", "--langmap=C++:.h.cc.cu.cuh", "--kinds-C++=cfgnsu", "--fields=+KSZefn", "--extras=+{anonymous}",
               "--output-format=json", "-f", "-", "-L", "-"]
    done = subprocess.run(command, input="\n".join(sorted(files)), capture_output=True, text=True, check=True, cwd=ROOT)
    found = collections.defaultdict(dict)
    for line in done.stdout.splitlines():
        tag = json.loads(line)
        scope = tag.get("scope", "")
        if tag["kind"] not in TYPES | {"function"} or tag["name"].startswith("__anon") or "__anon" in scope:
            continue
        # A member belongs to its class, and a file may keep a function to itself.
        if tag.get("scopeKind", "namespace") != "namespace" or (tag["kind"] == "function" and tag.get("file")):
            continue
        name = f"{scope}::{tag['name']}{tag.get('signature', '')}"
        if not name.startswith(OF_EACH_PROGRAM):
            found[name].setdefault(tag["path"], tag["line"])
    return found


def main():
    product, support = sources(*LAYERS), sources("tests/support")
    others = [sources(folder) | support for folder in sorted((ROOT / "tests").iterdir()) if folder.is_dir()]
    programs = [product | files for files in others or [set()]]
    bad = False
    for name, places in sorted(definitions(set().union(*programs)).items()):
        if any(len(places.keys() & files) > 1 for files in programs):
            print(f"{', '.join(f'{path}:{line}' for path, line in sorted(places.items()))}: {name} is defined more than once")
            bad = True
    if not bad:
        print("names: none is defined twice")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
