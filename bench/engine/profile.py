"""Where the CPU time of the engine goes: an ingest, a prompt, tokens with nothing mounted, tokens with a mounted document.

    apt-get install linux-perf libdevel-nytprof-perl        # perf, and the script that draws flame graphs
    python3 bench/engine/profile.py build/release/bin/recollect --text books.txt

Runs `recollect` four times under perf, with oneDNN naming the code that it generates, and prints the shares of the samples by part
as a table. Writes a flame graph for each as OUT/profile-NAME.svg. What a program does before its engine is there, reading and
packing weights, is left out. Code that oneDNN generates cannot be unwound: it has no callers in the graphs.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from pages import replace_table  # noqa: E402

FLAME_GRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"
LEAST_SHARE = 0.003  # of the samples: what is narrower is not drawn
START = re.compile(r"LoadModel|Tokenizer::Load|_dl_start|_dl_init|MakeSketch")
# A sample belongs to the innermost of its frames that has a part, and has the first that fits. A frame is "symbol (file)".
PARTS = [(part, re.compile(pattern)) for part, pattern in [
    ("kernel", r"\[kernel|\[guest"),
    ("matrix products", r"^jit_brgemm|gemm_kernel"),
    ("what surrounds products: oneDNN's calls, rounding of inputs", r"^jit_|dnnl|kernels::.*(Gemm|RunTile|ConvertToBf16)|omp_[gs]et"),
    ("chunk encoder's attention", r"model::.*(RunEncoderAttention|AttendFp32|AttendBf16)"),
    ("attention of the layers", r"AttendState|AttendBlocks|LocalCache::"),
    ("GCA", r"kernels::.*(Gca|ChunkToRows|ChunkToRow)\b|model::RunGca"),
    ("landmark search", r"Landmark(Scores|TopK|Sketch|Lists)|CpuLandmarks|Sketch|BoundsNotBelow|Lexicon"),
    ("gated scan", r"GatedScan"),
    ("norms, gates, rope, sums", r"kernels::.*(RmsNorm|SwiGlu|SigmoidGate|Rope|RotateHalves|::Add\b|RoundToBf16)|sincos|AdvanceGated"),
    ("pointer head, sampling", r"MixPointed|LogSumExp|kernels::.*(Sample|Argmax)|Successors|successors|[Pp]ointe[rd]|RunHead"),
    ("chunk states: rounding, encoding", r"MxInt8|ToBf16|EncodeClosed|RunMemoryProjection|EncodeChunk|DecodeChunk|ChunkRecord"),
    ("checksums, compression", r"crc32|Crc32|libz\.|liblz4|libzstd|libsnappy|libisal|Sha256|libcrypto"),
    ("RocksDB", r"librocksdb|store::.*[Rr]ock"),
    ("gRPC", r"libgrpc|libprotobuf|libupb|libgpr"),
    ("tokenizer", r"Tokenizer|SentencePiece"),
    ("copying, allocating", r"__mem(move|cpy|set)|malloc|_free|free@|calloc|realloc|memalign|operator (new|delete)|unlink_chunk|cfree"),
]]
REST = "the rest"


def workloads(args, work):
    """name -> (what it does, samples a second, arguments of recollect); the last one mounts what the first has ingested."""
    text = args.text.read_bytes()
    prompt = work / "prompt.txt"
    # 3.3 bytes a token; cut at a space, so that no character is halved.
    prompt.write_bytes(text[:text.rindex(b" ", 0, min(len(text), args.prompt_tokens * 33 // 10))])
    data = ["--data-dir", work / "data"]
    tokens = ["--prompt-file", work / "question.txt", "--max-tokens", args.tokens, "--ignore-eos"]
    (work / "question.txt").write_text("The captain of the ship")
    return {
        "ingest": ("an ingest", 499, [*data, "ingest", args.text, "--id", "text"]),
        "prompt": ("a prompt", 1999, ["--data-dir", ":memory:", "generate", "--prompt-file", prompt, "--max-tokens", 1]),
        "decode": ("tokens, nothing mounted", 999, ["--data-dir", ":memory:", "generate", *tokens]),
        "mounted": ("tokens, the text mounted", 999, [*data, "generate", "--mount", "text", *tokens]),
    }


def record(args, work, name, frequency, arguments):
    """The stacks of the samples, innermost frame first, of one run."""
    samples = work / f"{name}.perf"
    command = ["perf", "record", "--quiet", "--event", "cpu-clock", "--freq", frequency, "--call-graph", "dwarf,16384", "--output", samples,
               args.binary, "--model", args.model, *arguments]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, env={**os.environ, "ONEDNN_JIT_PROFILE": "2"})
    script = subprocess.Popen(["perf", "script", "--no-inline", "--fields", "comm,ip,sym,dso", "--input", samples],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    stack, stacks = [], collections.Counter()
    for line in script.stdout:
        if line.startswith(("\t", "  ")):
            stack.append(line.split(None, 1)[1].strip())
        elif not line.strip() and stack:
            stacks[tuple(frame for frame in stack if not frame.startswith("[unknown] ([unknown])"))] += 1
            stack = []
    if script.wait() != 0:
        raise SystemExit("perf script failed")
    samples.unlink()
    return collections.Counter({stack: count for stack, count in stacks.items() if not any(map(START.search, stack))})


def part_of(stack):
    for frame in stack:
        for part, pattern in PARTS:
            if pattern.search(frame):
                return part
    return REST


def short(frame):
    """The name of a frame as a flame graph shows it: no arguments, no templates, no file."""
    symbol, _, file = frame.rpartition(" (")
    if symbol == "[unknown]":
        return pathlib.PurePath(file.rstrip(")")).name
    symbol = re.sub(r"\(anonymous namespace\)::|recollect::|\[abi:\w+\]|@.*$", "", symbol)
    while (bare := re.sub(r"<[^<>]*>", "", symbol)) != symbol:
        symbol = bare
    symbol = re.sub(r"^std::_Function_handler::_M_invoke$", "std::function", symbol)
    return symbol.replace(";", ",") or "?"


def draw(stacks, title, out):
    """A flame graph; frames of less than LEAST_SHARE are cut off, those below them with them."""
    total = sum(stacks.values())
    paths = collections.Counter()
    for stack, count in stacks.items():
        path = tuple(map(short, reversed(stack)))
        for depth in range(1, len(path) + 1):
            paths[path[:depth]] += count
    folded = collections.Counter()
    for stack, count in stacks.items():
        path = tuple(map(short, reversed(stack)))
        while path and paths[path] < total * LEAST_SHARE:
            path = path[:-1]
        folded[";".join(path) or "other"] += count
    lines = "".join(f"{path} {count}\n" for path, count in sorted(folded.items()))
    svg = subprocess.run([FLAME_GRAPH, "--title", title, "--hash", "--countname", "samples", "--width", "1200", "--minwidth", "0.5"],
                         input=lines, check=True, text=True, stdout=subprocess.PIPE).stdout
    out.write_text(svg)


def table(shares, counts):
    """Markdown: a row for each part, those that nothing takes left out."""
    names = list(shares)
    yield "| part | " + " | ".join(title for title, _, _ in counts.values()) + " |"
    yield "|---|" + "---|" * len(names)
    for part in [*(part for part, _ in PARTS), REST]:
        if any(shares[name][part] >= 0.0005 for name in names):
            yield f"| {part} | " + " | ".join(f"{shares[name][part]:.1%}".replace("%", " %") for name in names) + " |"
    yield "| CPU time, s | " + " | ".join(f"{seconds:.1f}" for _, _, seconds in counts.values()) + " |"
    yield "| samples | " + " | ".join(str(count) for _, count, _ in counts.values()) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--model", default="models/recollect-7m")
    parser.add_argument("--text", type=pathlib.Path, required=True, help="what is ingested, mounted, and read as a prompt")
    parser.add_argument("--prompt-tokens", type=int, default=65536)
    parser.add_argument("--tokens", type=int, default=8192, help="that are generated")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs"))
    parser.add_argument("--page", help="docs/profile.md: the table replaces the one that is there")
    parser.add_argument("--frames", type=int, default=0, help="print so many of the innermost frames of the rest, too")
    args = parser.parse_args()
    shares, counts = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for name, (title, frequency, arguments) in workloads(args, work).items():
            print(f"{title} ...", file=sys.stderr, flush=True)
            stacks = record(args, work, name, frequency, arguments)
            total = stacks.total()
            parts = collections.Counter()
            rest = collections.Counter()
            for stack, count in stacks.items():
                parts[part_of(stack)] += count
                if part_of(stack) == REST:
                    rest[stack[0] if stack else "?"] += count
            shares[name] = collections.Counter({part: count / total for part, count in parts.items()})
            counts[name] = (title, total, total / frequency)
            draw(stacks, f"CPU time of {title}", args.out / f"profile-{name}.svg")
            for frame, count in rest.most_common(args.frames):
                print(f"  {count / total:.2%} {frame}", file=sys.stderr)
    lines = list(table(shares, counts))
    print("\n".join(lines))
    if args.page:
        replace_table(args.page, lines)


if __name__ == "__main__":
    main()
