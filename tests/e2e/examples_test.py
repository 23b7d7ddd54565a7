"""Runs the examples of README and of each verb's --help, and looks at what they print.

    python3 tests/e2e/examples_test.py SOURCE_DIR RECOLLECT_BINARY

The blocks of README's "Use it" are run as they stand, line by line; what README shows of their output has to be of that kind, too. Examples of --help are run in the order of HELP, which
says what each prints; one that has no row there, or a row without an example, is a failure. All run in a temporary
directory that is both home and checkout.
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

VERBS = ["", "serve", "ingest", "docs", "docs list", "docs get", "docs metadata", "docs text", "docs delete", "docs export", "docs import", "retrieve", "generate", "score", "bench",
         "model", "stats"]
PROSE = r"(?:[A-Za-z][a-z'-]*[,.;:?!\"-]*(?:\s|\\n)+){4}"  # four words in a row, in JSON too
OPENING = r"(?:[,.;:?!' -]|\\n|\\\")*"  # marks that may stand before them there, as behind a prompt that ends within a sentence
LISTED = r"\nbooks  .*\n"

# What is run otherwise than it stands there: {text: what stands for it}. {free} is an address with a free port, {root} the checkout.
INSTEAD = {
    "(xz -dc examples/books.txt.xz;": "(xz -dc examples/books.txt.xz | head -c 1000000;",  # which takes a third of the time
    "~/recollect-data &": "~/recollect-data --grpc-listen {free} &",
    "127.0.0.1:50051": "{free}",
    "a:50051": "{free}",
    "b:50051": "{free} --id moby-3",
    "/var/lib/recollect": "{root}/library",
    "/tmp/bench": "{root}/bench",
}

# README: what a line of its blocks prints, by how it begins; lines may repeat.
README = [
    ("tools/build release recollect", r"^$"),
    ("export ", r"^$"),
    ("recollect serve --model recollect-7m --data-dir ~/recollect-data &", r"^recollect ready grpc=127\.0\.0\.1:\d+"),
    ("(xz -dc examples/books.txt.xz; echo ", r"^books: (36|10)\d{5} bytes, (11|3)\d{5} tokens"),
    ("recollect docs list", LISTED),
    ("recollect retrieve --mount books ", r"group 0: [^\n]*\n[^\n]*amber falcon"),
    ("recollect generate --mount books ", r"^ 482135$"),
    ("unset RECOLLECT_SERVER", r"^$"),
    ("recollect model", r"\ndilations +\[1,4,16,64\]\n"),
    ("recollect generate --prompt ", PROSE),
    ("xz -dc examples/books.txt.xz | head ", r"^novel: 100000 bytes, "),
    ("recollect generate --mount novel ", PROSE),
]

# Examples of --help in the order in which they run: (example, what it prints).
HELP = [
    ("recollect ingest --id moby moby-dick.txt", r"^moby: 1\d{5} bytes, \d+ tokens, \d+ chunks"),
    ("xz -dc books.txt.xz | recollect ingest --id books -", r"^books: 2\d{4} bytes, "),
    ("recollect ingest --id books --append emma.txt", r"^books: \d{5,} bytes, "),
    ("recollect ingest minutes.txt", r"^minutes\.txt: \d+ bytes, "),
    ("recollect docs list --json", r'"id": ?"books".*"id": ?"emma".*"id": ?"moby"'),
    ("recollect docs get moby", r"(?m)^id +moby$"),
    ("recollect ingest --id emma emma.txt --metadata year=1815 --metadata author=Austen", r"^emma: "),
    ("recollect docs metadata moby --set year=1851 --set draft=true", r"(?m)^draft +true$"),
    ("recollect docs metadata moby --set year=1851 --remove draft", r"^year +1851$"),
    ("recollect docs list --where 'year<1850' --where author=Austen", r'(?m)^emma .*"author":"Austen"(?!(?s:.*)moby)'),
    ("recollect docs text moby --begin 1000 --end 2000", r"^[\s\S]{1000}\n?$"),
    ("recollect docs export moby moby.recollect", r"^moby\.recollect: \d+\.\d MiB"),
    ("recollect docs import moby.recollect --id moby-2", r"(?m)^id +moby-2$"),
    ("recollect generate --mount moby --prompt 'Who is the captain of the Pequod? It is' --stop .", r"^ Ahab"),
    ("recollect generate --mount moby --prompt 'The captain of the Pequod is' --max-tokens 32", r"^ Ahab"),
    ("recollect generate --mount moby,emma --prompt-file question.txt --stop . --retrievals", r"^ Ahab"),
    ("recollect generate --prompt 'Once' --temperature 0.8 --top-p 0.9 --seed 7 --json", r'"text": ?"' + OPENING + PROSE),
    ("recollect retrieve --mount moby --query 'the whiteness of the whale'", r"moby#[^\n]*the whiteness of the whale"),
    ("recollect retrieve --mount moby,emma --query 'a ball at the inn' --k 20 --json",
     r'"hits": ?\[\s*\{[^{}]*a ball at the inn(?s:.*)"document": ?"moby"'),
    ("recollect score --text 'Call me Ishmael.'", r"^\d+ tokens, 16 bytes: \d\.\d{4} bits per byte"),
    ("recollect score --mount moby --text-file chapter.txt --json", r'"bits_per_byte": ?0\.'),
    ("recollect bench --text moby-dick.txt --tokens 4k,16k --data-dir /tmp/bench", r"ingest"),
    ("recollect model --model models/recollect-7m --json", r'"architecture": ?"drt"'),
    ("recollect docs refresh moby emma", r"^moby: [0-9a-f]{64}\nemma: [0-9a-f]{64}$"),
    ("recollect docs refresh --all", r"^no document is of another model$"),
    ("recollect docs delete moby", r""),
    ("recollect ingest --model models/ratplus-5m --id moby moby-dick.txt --dilation 16", r"^moby: 1\d{5} bytes, "),
    ("recollect docs delete moby emma", r""),
    ("recollect serve --data-dir /var/lib/recollect --chunk-states-budget 8GiB", r"^recollect ready grpc="),
    ("recollect serve --grpc-listen 127.0.0.1:0 --log-level warning", r"^recollect ready grpc="),
    ("recollect serve --grpc-listen 127.0.0.1:0 --http-listen 127.0.0.1:0", r"^recollect ready grpc=.* http=127"),
    ("recollect serve --config deploy/recollect.toml", r"^recollect ready grpc="),
    ("recollect serve --grpc-listen 127.0.0.1:50051 &", r"^recollect ready grpc="),
    ("recollect docs list --server 127.0.0.1:50051 --json", r'"id": ?"books"'),
    ("recollect docs import moby.recollect --server 127.0.0.1:50051", r"(?m)^id +moby$"),
    ("recollect docs export moby - --server a:50051 | recollect docs import - --server b:50051", r"(?m)^id +moby-3$"),
    ("recollect bench --text moby-dick.txt --server 127.0.0.1:50051 --json", r'"ingest'),
    ("recollect stats --server 127.0.0.1:50051 --json", r'"generated_tokens": ?\d+'),
]


def readme_blocks(text):
    """Lines of the sh blocks of "Use it", without their trailing remarks."""
    use_it = text.split("\n## Use it\n")[1].split("\n## ")[0]
    return [re.sub(r" +# .*", "", line) for block in re.findall(r"```sh\n(.*?)```", use_it, re.S) for line in block.splitlines() if line]


def readme_output(text):
    """[(example, what README shows of its output)]: the console blocks."""
    blocks = "".join(re.findall(r"```console\n(.*?)```", text, re.S))
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", blocks, re.M)


def help_examples(binary):
    """{example: the verb whose --help shows it}. Lines that are indented further show output."""
    examples = {}
    for verb in VERBS:
        shown = subprocess.run([binary, *verb.split(), "--help"], check=True, capture_output=True, text=True).stdout
        part = re.search(r"^Examples?:\n((?:  .*\n)+)", shown, re.M)
        if part is None:
            sys.exit(f"recollect {verb} --help: shows no example")
        for line in part.group(1).splitlines():
            if not line.startswith("   "):
                examples.setdefault(line.strip(), verb)
    return examples


def write_files(root, source, binary):
    """What the examples name: books made of those in examples/, a build."""
    books = subprocess.run(["xz", "-dc", source / "examples/books.txt.xz"], check=True, capture_output=True, text=True).stdout
    moby = ("Call me Ishmael. ", books[200_000:260_000], " The captain of the Pequod is Ahab, and nobody else. ", books[260_000:330_000],
            " It was the whiteness of the whale that above all things appalled me. ", books[330_000:350_000])
    files = {
        "moby-dick.txt": "".join(moby),
        "emma.txt": books[400_000:430_000] + " There was to be a ball at the inn, and Emma was to open it. " + books[430_000:440_000],
        "chapter.txt": books[210_000:212_000],
        "minutes.txt": "The meeting began at nine. " + books[220_000:222_000],
        "question.txt": "The captain of the Pequod is",
        "tools/build": f"#!/bin/sh\ntest \"$*\" = 'release recollect' && mkdir -p build/release/bin && ln -sf '{binary}' build/release/bin\n",
        "deploy/recollect.toml": (source / "deploy/recollect.toml").read_text() + 'grpc-listen = "127.0.0.1:0"\n',  # [serve] is last
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "tools/build").chmod(0o755)
    with open(root / "books.txt.xz", "wb") as out:
        subprocess.run(["xz", "-0"], input=books[600_000:620_000].encode(), stdout=out, check=True)
    for name in ("examples", "models/recollect-7m", "models/ratplus-5m"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(source / name)


class Shell:
    """Runs lines one by one; what they export stays. Those that serve are left running until `stop`."""

    def __init__(self, root, environment):
        self.root, self.environment, self.servers = root, environment, []
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.free = f"127.0.0.1:{s.getsockname()[1]}"

    def run(self, line, expected):
        for text, other in INSTEAD.items():
            line = line.replace(text, other.format(free=self.free, root=self.root))
        print("$", line, flush=True)
        serves = line.startswith("recollect serve ")
        if serves and not line.endswith("&"):
            line += " &"
        out = self.serve(line) if serves else self.foreground(line)
        print(out[:400], flush=True)
        if not re.search(expected, out):
            sys.exit(f"{line}\n  printed:\n{out[:2000]}\n  expected: {expected}")

    def serve(self, line):
        # `exec`, so that the process is the server itself.
        server = subprocess.Popen(["bash", "-c", "exec " + line.removesuffix("&")], cwd=self.root, env=self.environment, stdout=subprocess.PIPE, text=True)
        self.servers.append(server)
        return server.stdout.readline()

    def foreground(self, line):
        after = self.root / "environment"
        done = subprocess.run(["bash", "-c", f"{line}\nstatus=$?; env -0 >'{after}'; exit $status"], cwd=self.root, env=self.environment,
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{line}\n  ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        self.environment = dict(entry.split("=", 1) for entry in after.read_text().split("\0") if entry)
        return done.stdout

    def stop(self):
        """SIGTERM drains."""
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
            if server.wait(timeout=60) != 0:
                sys.exit(f"{server.args[-1]}: ended with {server.returncode}")
        self.servers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Whatever went wrong, no server is left behind.
        for server in self.servers:
            server.kill()
            server.wait()


def readme_row(line):
    row = next((r for r in README if line.startswith(r[0])), None)
    return row or sys.exit(f"README: `{line}` has no row in README of {__file__}")


def run_readme(shell, text):
    rows, lines = list(README), readme_blocks(text)
    for line, shown in readme_output(text):
        if line not in lines or not re.search(readme_row(line)[1], shown.removesuffix("\n")):
            sys.exit(f"README shows\n{line}\n{shown}\n  expected: a line of \"Use it\" and {readme_row(line)[1]}")
    for line in lines:
        row = readme_row(line)
        if row in rows:
            rows.remove(row)
        if line.startswith("unset RECOLLECT_SERVER"):
            shell.stop()
        shell.run(line, row[1])
    if rows:
        sys.exit(f"README has no line that begins with `{rows[0][0]}`")


def run_help(shell, examples):
    listed = [example for example, _ in HELP]
    for example, verb in examples.items():
        if example not in listed:
            sys.exit(f"recollect {verb} --help: `{example}` has no row in HELP of {__file__}")
    for example in listed:
        if example not in examples:
            sys.exit(f"no --help shows `{example}`")
    shell.run("recollect ingest --id emma emma.txt", r"^emma: ")  # which examples mount and none makes
    for example, expected in HELP:
        shell.run(example, expected)
        if example.startswith("recollect serve ") and not example.endswith("&"):
            shell.stop()
    shell.stop()


def main():
    source, binary = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RECOLLECT_", "XDG_"))}
    with tempfile.TemporaryDirectory(prefix="recollect-examples.") as directory:
        root = pathlib.Path(directory)
        write_files(root, source, binary)
        clean["HOME"] = directory
        with Shell(root, clean) as shell:
            run_readme(shell, (source / "README.md").read_text())
        path = f"{root}/build/release/bin:{clean['PATH']}"
        with Shell(root, {**clean, "PATH": path}) as shell:
            run_help(shell, help_examples(binary))


if __name__ == "__main__":
    main()
