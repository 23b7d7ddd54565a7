"""The command line of niah."""
import argparse
import os
import pathlib
import re

from niah.quote import CUES
from niah.tasks import TASKS

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTROLS = ["none", "unmounted", "removed", "random"]
LEAST_TOKENS, MOST_TOKENS = 256, 1 << 30

DESCRIPTION = """\
Needle-in-a-haystack test: does a model with landmarks give back what was ingested, digit for digit?
Needs the Python client: pip install ./client/python. BM25 beside the hits needs the package bm25s,
--heat-map needs matplotlib."""
EPILOG = """\
Examples:
  python3 bench/niah --haystack books.txt --tokens 4k --samples 10 --json niah.json
  python3 bench/niah --haystack books.txt --task distractors,hex --tokens 4k --samples 5 --server 127.0.0.1:50051
  python3 bench/niah --haystack books.txt --task quote,reread,prose --tokens 4k --samples 10
  python3 bench/niah --haystack books.txt --tokens 4k --samples 10 --control random
  python3 bench/niah --haystack books.txt --tokens 4k,16k --hide all --samples 10 --heat-map niah.svg

Tasks (docs/niah.md):
  passkey      a sentence gives a key a value of 5 to 7 digits
  distractors  the same, among --distractors others of the same form
  hex          the same with a value of --hex-digits hex digits
  quote        --cue-words consecutive words of the haystack are the prompt: is their place retrieved,
               and does the answer continue as the text does?
  reread       bits per byte of a passage, its document mounted or not
  prose        words of the haystack are the prompt: does the model go on in prose, without what
               training asked and answered, and not in circles?
  records      a value in records of many shapes, among --distractors others of the shape
  ruler        tasks of RULER: needles, many keys or values, variables

Each sample replaces text at a random depth by what it asks for, ingests the result, and asks in a
fresh session with greedy decoding. The report has the answers, the retrieved chunks, and what BM25
finds by the same words among the same chunks. Sizes above --shard-tokens are mounted as several
documents, in order; for each sample only those that contain a needle are ingested again. With --hide
all the needles of all samples are in one document, which is ingested once. Documents (niah-...) are
deleted at the end. After an interruption a run with --json FILE goes on: give the same command again.

Without --server a server of --binary runs as long as the test, on --data-dir. Flags that are not
listed here are for that server: --device, --threads, --dtype, --chunk-states-format,
--landmark-budget and others of `recollect serve --help`."""


def token_count(text):
    """3000, 4k, 1m; k and m are of 2^10 and 2^20."""
    match = re.fullmatch(r"(\d{1,10})([km]?)", text.lower())
    tokens = int(match[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20}[match[2]] if match else 0
    if not LEAST_TOKENS <= tokens <= MOST_TOKENS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens from {LEAST_TOKENS} to 1024m, such as 3000, 4k or 1m")
    return tokens


def whole(least, most):
    def parse(text):
        if not re.fullmatch(r"\d{1,20}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {most}")
        return int(text)
    return parse


def list_of(parse):
    return lambda text: [parse(part) for part in text.split(",")]


def one_of(names):
    def parse(text):
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r}, expected one of {', '.join(names)}")
        return text
    return parse


class Help(argparse.RawDescriptionHelpFormatter):
    """Shows the default behind each help, but for those without one."""

    def _get_help_string(self, action):
        return action.help if action.default in (None, False, argparse.SUPPRESS) else f"{action.help} (default: {shown(action.default)})"


def shown(value):
    return ",".join(map(str, value)) if isinstance(value, list) else value


def add_samples(parser):
    parser.add_argument("--haystack", nargs="+", required=True, metavar="FILE", help="text files to hide needles in")
    parser.add_argument("--tokens", type=list_of(token_count), default=[4096, 65536], help="mounted sizes; k and m are 2^10 and 2^20")
    parser.add_argument("--task", type=list_of(one_of(TASKS)), default=["passkey"], help="what to ask, see below")
    parser.add_argument("--samples", type=whole(1, 100000), default=50, help="samples of each task, size and variant")
    parser.add_argument("--samples-per-shape", type=whole(1, 100000), help="for records and ruler: samples of each variant instead")
    parser.add_argument("--depths", type=whole(1, 100), default=5, help="number of depths over which samples are spread")
    parser.add_argument("--seed", type=whole(0, (1 << 64) - 1), default=1, help="same seed, same needles and places; seeds nearer than --samples "
                        "share some")
    parser.add_argument("--control", type=list_of(one_of(CONTROLS)), default=["none"], help="scores should be near 0: nothing mounted, needle left "
                        "out, random chunks (unmounted, removed, random); several run one after another")
    parser.add_argument("--control-samples", type=whole(1, 100000), help="of the samples, ask only the first so many with a control")
    parser.add_argument("--hide", choices=["each", "all"], default="each", help="each sample in a haystack of its own, or all of a size in one, "
                        "which is ingested once, as one document")
    parser.add_argument("--keep", action="store_true", help="with --hide all: do not delete the document at the end")
    parser.add_argument("--shard-tokens", type=token_count, default=65536, help="larger sizes are mounted as several documents of this size")
    parser.add_argument("--samples-per-haystack", type=whole(1, 100000), default=10, help="samples for each haystack of several documents that is "
                        "prepared for one task")


def add_tasks(parser):
    parser.add_argument("--phrasing", choices=["trained", "held-out", "both"], default="both", help="of passkey, distractors, hex")
    parser.add_argument("--phrases", metavar="FILE", help="phrasings in place of train/phrases.json")
    parser.add_argument("--distractors", type=whole(0, 10000), default=40, help="other needles or records of the same form")
    parser.add_argument("--hex-digits", type=whole(1, 256), default=32, help="for hex; answers above 63 tokens cross a block boundary")
    parser.add_argument("--cue-words", type=whole(1, 1000), default=12, help="for quote and prose: words of the haystack that are the prompt")
    parser.add_argument("--cue", type=list_of(one_of(CUES)), default=["whole"], help="for quote: the words unchanged; with a third left out; "
                        "shuffled (whole, thinned, shuffled)")
    parser.add_argument("--passage-bytes", type=whole(1, 100000), default=1500, help="for reread: size of the passage")
    parser.add_argument("--dilation", type=int, default=0, help="of local attention; a value the model is adapted to; 0: the model's")
    parser.add_argument("--dry-multiplier", type=float, default=0.0, help="of the answers, as for `recollect generate`")


def add_server(parser):
    parser.add_argument("--server", metavar="HOST:PORT", help="a running server, also as RECOLLECT_SERVER; otherwise one is started for the test")
    parser.add_argument("--api-key-file", metavar="FILE", help="whose first line is the key to send; otherwise RECOLLECT_API_KEY")
    parser.add_argument("--tls-ca", metavar="FILE", help="certificates to trust, for a server that speaks TLS")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="give up a call after this long (ingest: never)")
    parser.add_argument("--binary", default=str(ROOT / "build/release/bin/recollect"), help="the program of the server that is started")
    parser.add_argument("--model", help="its model, by name or path (default: recollect-7m)")
    parser.add_argument("--data-dir", help="its documents (default: :memory:)")


def parser():
    made = argparse.ArgumentParser(prog="niah", usage="python3 bench/niah --haystack FILE... [flags]", description=DESCRIPTION, epilog=EPILOG,
                                   formatter_class=Help, allow_abbrev=False)
    add_samples(made.add_argument_group("samples"))
    add_tasks(made.add_argument_group("tasks"))
    report = made.add_argument_group("report")
    report.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write the report, with every sample, as JSON to FILE; without FILE "
                        "print it instead of the table")
    report.add_argument("--heat-map", metavar="FILE", help="draw the right answers by size and depth to FILE (.svg, .png, .pdf)")
    add_server(made.add_argument_group("server"))
    return made


def parse(arguments=None):
    """The flags. `server_flags`: those for a server that is started. Ends the program where they do not fit together."""
    made = parser()
    flags, others = made.parse_known_args(arguments)
    own = flags.model or flags.data_dir or others
    if flags.server and own:
        made.error(f"--server and {'--model' if flags.model else '--data-dir' if flags.data_dir else others[0]} exclude each other")
    for control in flags.control:
        for task in ("reread", "prose"):
            if control != "none" and task in flags.task:
                made.error(f"--control {control}: not for --task {task}, which reports its own controls")
    if not own:
        flags.server = flags.server or os.environ.get("RECOLLECT_SERVER")
    flags.server_flags = others
    return flags
