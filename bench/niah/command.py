"""The program: runs the samples of each control, shows progress, and reports."""
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import sys
from typing import NamedTuple

from niah import answered, bm25, heat_map, phrases, report
from niah.errors import Conflict, InvalidInput, NiahError
from niah.flags import parse
from niah.progress import ProgressBar
from niah.task import TaskOptions

SHARD_NOTE = ("sizes above --shard-tokens are mounted as several documents, in order; per sample only those that hold a needle are ingested "
              "anew")
ALL_NOTE = "what all samples of a size ask for lies in one document, ingested once before the first of them is asked"
UNFINISHED = ".unfinished"  # behind the name of the report
NO_CLIENT = "niah: needs the Python client of this repository: pip install ./client/python"
# Exit codes by gRPC's status, as `recollect --help` lists them; 1 for others.
EXIT_CODES = {"NOT_FOUND": 3, "INVALID_ARGUMENT": 4, "OUT_OF_RANGE": 4, "UNAVAILABLE": 5, "DEADLINE_EXCEEDED": 6, "CANCELLED": 6,
              "ALREADY_EXISTS": 7, "FAILED_PRECONDITION": 7, "ABORTED": 7, "RESOURCE_EXHAUSTED": 8, "DATA_LOSS": 9, "UNAUTHENTICATED": 10,
              "PERMISSION_DENIED": 10}


class Inputs(NamedTuple):
    text: bytes
    phrases: phrases.Phrases
    phrases_hash: str


def read(path):
    """A whole file, or standard input for "-"."""
    try:
        return sys.stdin.buffer.read() if path == "-" else pathlib.Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None


def read_inputs(flags):
    wordings = read(flags.phrases or phrases.FILE)
    parts = []
    for path in flags.haystack:
        parts.append(read(path))
        try:
            parts[-1].decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path}: byte {error.start} is not UTF-8") from None
    return Inputs(b"".join(parts), phrases.parse(wordings), hashlib.sha256(wordings).hexdigest())


def write(flag, path, mode, text):
    """Mode "ab" leaves a file as it is: finds out before hours of work whether it can be written."""
    try:
        with open(path, mode) as file:
            file.write(text)
    except OSError as error:
        raise InvalidInput(f"{flag}: cannot write {path}: {error.strerror}") from None


def run_options(flags):
    from niah.run import RunOptions

    phrasings = ["trained", "held-out"] if flags.phrasing == "both" else [flags.phrasing]
    task = TaskOptions(phrasings, flags.distractors, flags.hex_digits, flags.cue_words, flags.cue, flags.passage_bytes)
    same = ("tokens", "hide", "depths", "samples", "dilation", "dry_multiplier", "shard_tokens", "samples_per_haystack", "seed", "keep")
    return RunOptions(tasks=flags.task, task=task, samples_per_shape=flags.samples_per_shape or 0, **{name: getattr(flags, name) for name in same})


def for_control(flags, number):
    """The options of one control. The document of all samples is the same with and without random chunks: it stays for the next."""
    options = run_options(flags)
    options.control = flags.control[number]
    if options.control != "none":
        options.asked = flags.control_samples or 0
    if options.control in ("none", "random"):
        options.keep = options.keep or any(control in ("none", "random") for control in flags.control[number + 1:])
    return options


def meaning(flags, inputs, model):
    """All that determines the samples and their answers, but for the server's instruction set."""
    names = ("tokens", "task", "hide", "samples", "samples_per_shape", "depths", "seed", "control", "control_samples", "phrasing", "distractors",
             "hex_digits", "cue_words", "cue", "passage_bytes", "dilation", "dry_multiplier", "shard_tokens", "samples_per_haystack")
    return {"--haystack (SHA-256)": hashlib.sha256(inputs.text).hexdigest(), "--phrases (SHA-256)": inputs.phrases_hash,
            "model": f"{model.name} {model.dtype} {model.fingerprint}"} | {f"--{name.replace('_', '-')}": getattr(flags, name) for name in names}


def message_json(message):
    """A message of recollect.v1 with its fields' names, in the order in which the proto declares them. A field that is not set is left
    out; a field without presence is always there."""
    values = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if hasattr(value, "append"):  # repeated
            values[field.name] = [message_json(v) if field.message_type else v for v in value]
        elif not field.has_presence or message.HasField(field.name):
            values[field.name] = message_json(value) if field.message_type else value
    return values


def model_json(model):
    values = message_json(model)
    patterns = values.pop("layer_patterns")
    return values | ({"layer_patterns": [layer["heads"] for layer in patterns]} if patterns else {})


class Watch:
    """Shows how far a run is, and keeps what is answered. `kept` may be None."""

    def __init__(self, control, total, kept):
        self.control, self.kept = control, kept
        self.bar = ProgressBar("niah" if control == "none" else f"niah, {control}", total)
        self.ingest = None
        self.done = self.judged = self.right = 0

    def close(self):
        for bar in (self.ingest, self.bar):
            if bar is not None:
                bar.close()

    def name(self, name):
        return f"{self.control} {name}"

    def answered(self, name):
        return self.kept and self.kept.find(self.name(name))

    def on_ingest(self, progress, tokens, count):
        self.ingest = self.ingest or ProgressBar(f"ingest {heat_map.token_count(tokens)}", count)
        self.ingest.update(progress.accepted_offset, f"{progress.tokens} tokens, {progress.tokens_per_s:.0f} tokens/s")

    def on_sample(self, name, sample, known):
        if self.ingest is not None:
            self.ingest.close()
            self.ingest = None
        self.done += 1
        self.judged += sample.right is not None
        self.right += sample.right is True
        self.bar.update(self.done, f"{self.right} of {self.judged} right; {sample.task} {sample.variant} at {sample.tokens_asked}")
        if self.kept and not known:
            self.kept.add(self.name(name), sample)


def run_control(client, flags, number, inputs, model, kept):
    from niah.run import Runner

    runner = Runner(client, for_control(flags, number), model.retrieved_chunks, inputs.text, inputs.phrases)
    with contextlib.closing(Watch(flags.control[number], runner.total(), kept)) as watch:
        return runner.run(watch)


def mounting(flags):
    return ALL_NOTE if flags.hide == "all" else SHARD_NOTE


def report_of(flags, inputs, model, control, samples):
    names = ("distractors", "hex_digits", "cue_words", "passage_bytes", "dilation", "dry_multiplier", "shard_tokens")
    return {"model": model_json(model), "seed": flags.seed, "control": control, "hide": flags.hide, **{name: getattr(flags, name) for name in names},
            "haystack_bytes": len(inputs.text), "mounting": mounting(flags), **report.to_json(samples, flags.depths)}


def text_of(flags, model, control, samples):
    unicode = sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    maps = heat_map.as_text(heat_map.heat_maps(samples, flags.depths), unicode)
    return (f"control: {control}; model {model.name} {model.dtype}, seed {flags.seed}\nmounting: {mounting(flags)}\n\n"
            f"{report.table(samples, flags.depths)}\n{maps}")


def draw(flags, model, samples):
    title = f"{model.name} {model.dtype}, seed {flags.seed}, control: {flags.control[0]}"
    try:
        heat_map.draw(heat_map.heat_maps(samples, flags.depths), title, flags.heat_map)
    except OSError as error:
        raise InvalidInput(f"--heat-map: cannot write {flags.heat_map}: {error.strerror}") from None


@contextlib.contextmanager
def connected(flags):
    """A client of the server of --server, or of one that runs as long."""
    import recollect
    from running import Server

    if not flags.server:
        if not pathlib.Path(flags.binary).exists():
            raise InvalidInput(f"--binary: there is no {flags.binary}; tools/build release recollect makes it")
        with Server(flags.binary, flags.model or "recollect-7m", flags.data_dir or ":memory:", *flags.server_flags) as server:
            yield server.client
        return
    key = os.environ.get("RECOLLECT_API_KEY")
    if flags.api_key_file:
        key = (read(flags.api_key_file).decode().splitlines() or [""])[0].strip()
    with recollect.Client(flags.server, timeout=flags.timeout, api_key=key or None, tls_ca=flags.tls_ca) as client:
        yield client


def run(flags):
    inputs = read_inputs(flags)
    to_file = flags.json if flags.json not in (None, "-") else None
    for flag, path in ("--json", to_file), ("--heat-map", flags.heat_map):
        if path:
            write(flag, path, "ab", b"")
    if not bm25.available():
        print(bm25.MISSING, file=sys.stderr)
    with connected(flags) as client:
        model = client.model()
        if model.groups == 0:
            raise Conflict(f"niah: the model {model.name} of family {model.architecture} has no landmarks: there is nothing to retrieve")
        kept = answered.Answered(to_file + UNFINISHED, meaning(flags, inputs, model)) if to_file else None
        whole, text = report_controls(client, flags, inputs, model, kept)
    written = json.dumps(whole, indent=1 if to_file else None, ensure_ascii=False) + "\n"
    if to_file:
        write("--json", to_file, "wb", written.encode(errors="replace"))
        kept.remove()
    print(written if flags.json == "-" else text, end="")


def report_controls(client, flags, inputs, model, kept):
    """The report as JSON, of the first control with those of others below, and as text."""
    whole, texts = None, []
    for number, control in enumerate(flags.control):
        samples = run_control(client, flags, number, inputs, model, kept)
        one = report_of(flags, inputs, model, control, samples)
        texts.append(text_of(flags, model, control, samples))
        if whole is None:
            whole = one
        else:
            whole.setdefault("controls", []).append(one)
        if number == 0 and flags.heat_map:
            draw(flags, model, samples)
    return whole, "\n".join(texts)


def main():
    # A server that was started, and documents, are not left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    flags = parse()
    try:
        import recollect
    except ImportError:
        print(NO_CLIENT, file=sys.stderr)
        return 1
    if flags.heat_map and not heat_map.can_draw():
        print(heat_map.MISSING, file=sys.stderr)
        flags.heat_map = None
    try:
        run(flags)
    except NiahError as error:
        print(f"niah: {error}", file=sys.stderr)
        return error.exit_code
    except recollect.RecollectError as error:
        print(f"niah: {error.code.name}: {error}", file=sys.stderr)
        return EXIT_CODES.get(error.code.name, 1)
    except KeyboardInterrupt:
        return 130
    return 0
