"""The conversation of tools/demo, through the recollect binary alone: serve, ingest, generate, stats."""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import time

ADJECTIVES = "amber brass cobalt dusty eager frozen gilded hollow ivory jagged keen lunar mellow narrow opal".split()
NOUNS = "anchor beacon canyon dynamo ember falcon glacier harbor island jackal kettle lantern meadow nebula orchard".split()


def make_secrets(count, rng):
    """`count` secrets with different names: (sentence to hide, question, answer)."""
    # Names that share a word are another test: `bench/niah --task distractors`.
    names = [f"{a} {n}" for a, n in zip(rng.sample(ADJECTIVES, count), rng.sample(NOUNS, count))]
    for name in names:
        value = "".join(rng.choice("0123456789") for _ in range(rng.randint(5, 7)))
        yield (f" The secret number of the {name} is {value}.", f"What is the secret number of the {name}? The secret number of the {name} is", value)


def make_record(rng):
    """A line as a program writes it, for the book: (line to hide, its part up to the value, value)."""
    ship, value = f"{rng.choice(ADJECTIVES)}-{rng.choice(NOUNS)}", "".join(rng.choice("0123456789abcdef") for _ in range(8))
    return f"\nharbour.log: vessel={ship}, berth={value}\n", f"harbour.log: vessel={ship}, berth=", value


def make_quote(text, rng):
    """Twelve words of a sentence of the book, and the five that follow them."""
    while True:
        at = rng.randrange(len(text) - 400)
        words = text[text.find(" ", at):at + 400].split()[:17]
        if len(words) == 17 and all(word.isascii() for word in words):
            return " ".join(words[:12]), " ".join(words[12:])


def hide(text, secrets, rng):
    """Replaces text at random depths by the secrets' sentences, each after a sentence's end."""
    slot = len(text) // len(secrets)
    for i, (sentence, _, _) in reversed(list(enumerate(secrets))):
        at = text.find(". ", rng.randrange(i * slot, i * slot + slot * 3 // 4)) + 1
        text = text[:at] + sentence + text[at + len(sentence):]
    return text


class Server:
    """A `recollect serve` process on a free port."""

    def __init__(self, binary, data_dir, model="recollect-7m"):
        start = time.monotonic()
        self.process = subprocess.Popen(
            [binary, "serve", "--model", model, "--data-dir", data_dir, "--grpc-listen", "127.0.0.1:0", "--log-level", "warning"],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if "grpc=" not in line:
            sys.exit("the server did not start")
        self.address = line.split("grpc=")[1].split()[0]
        print(f"server on {self.address}, ready in {(time.monotonic() - start) * 1000:.0f} ms", flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Whatever went wrong, no server is left behind.
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(timeout=60) != 0:
            sys.exit("the server did not stop cleanly")


def generate(binary, server, question, *flags):
    """A greedy answer up to the full stop, by the command line."""
    return subprocess.Popen(
        [binary, "generate", "--server", server.address, "--mount", "books", "--prompt", question, "--max-tokens", "24", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    """What the process still prints, on standard output and standard error."""
    out, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"generate: exit code {process.returncode}: {errors}")
    return out, errors


def stream(binary, server, question):
    """Shows the answer as it comes; returns it, and the lines on the chunks retrieved for it."""
    process = generate(binary, server, question, "--stop", ".", "--retrievals")
    print(f"  {question}", end="", flush=True)
    answer = ""
    while piece := process.stdout.read(1):
        print(piece, end="", flush=True)
        answer += piece
    return answer, finish(process)[1].splitlines()


def show_best(lines, count=2):
    """The best chunks of every retrieval: weight, score, tier, document and number, bytes, text."""
    shown = 0
    for line in lines:
        shown = shown + 1 if line.startswith("  ") else 0
        if shown <= count:
            print(f"      {line}"[:118], flush=True)


def ask_all(binary, server, secrets):
    """Asks for each; returns the answers' tokens, and how many answers were right."""
    answers, right = [], 0
    for _, question, value in secrets:
        answer, hits = stream(binary, server, question)
        ok = answer.strip() == value
        right += ok
        print(f"\n    {'✓' if ok else '✗'} hidden: {value}; retrieved:")
        show_best(hits)
        again = json.loads(finish(generate(binary, server, question, "--stop", ".", "--json"))[0])
        if again["text"] != answer:
            sys.exit(f"asked again, the answer was {again['text']!r}")
        answers.append(again["tokens"])
    return answers, right


def ask_for_text(binary, server, record, quote):
    """Asks for what no question was made for: a line's value and a sentence's end. Shown, and counted by no exit status."""
    for cue, expected in (record, quote):
        text = finish(generate(binary, server, cue))[0]
        ok = " ".join(text.split()).startswith(expected)
        print(f"  {cue}{text.rstrip()}\n    {'✓' if ok else '✗'} written: {expected}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--secrets", type=int, default=5)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    rng = random.Random(seed)
    print(f"seed {seed}")

    secrets = list(make_secrets(args.secrets, rng))
    book, record = args.work / "books.txt", make_record(rng)
    quote = make_quote(book.read_text(), rng)
    book.write_text(hide(book.read_text(), secrets + [record], rng))
    data_dir = str(args.work / "data")

    with Server(args.binary, data_dir) as server:
        start = time.monotonic()
        ingest = subprocess.run([args.binary, "ingest", "--server", server.address, "--id", "books", "--json", str(book)],
                                check=True, stdout=subprocess.PIPE, text=True)
        seconds = time.monotonic() - start
        document = json.loads(ingest.stdout)
        print(f"ingested {document['tokens']} tokens, {document['chunks']} chunks in {seconds:.0f} s: "
              f"{document['tokens'] / seconds:.0f} tokens/s")
        print("asking")
        first, right = ask_all(args.binary, server, secrets)
        print("a line of a log, and words of a book to go on with")
        ask_for_text(args.binary, server, record[1:], quote)
        server.stop()

    with Server(args.binary, data_dir) as server:
        print("restarted; asking again")
        second, right_again = ask_all(args.binary, server, secrets)
        stats = json.loads(subprocess.run([args.binary, "stats", "--server", server.address, "--json"], check=True,
                                          capture_output=True, text=True).stdout)
        resident = next(line for line in open(f"/proc/{server.process.pid}/status") if line.startswith("VmRSS")).split()[1]
        server.stop()

    print(f"same tokens after the restart: {'yes' if first == second else 'NO'}")
    print(f"memory: {int(resident) // 1024} MiB resident; landmark keys {stats['landmark_bytes'] / 2**20:.1f} MiB, "
          f"memory K, V {stats['memory_bytes'] / 2**20:.1f} MiB, chunk states {stats['chunk_states_bytes'] / 2**20:.1f} MiB, "
          f"store {stats['store_bytes'] / 2**20:.0f} MiB")
    print(f"secrets recalled: {right} of {len(secrets)}, after the restart {right_again} of {len(secrets)}")
    return 0 if first == second and right == right_again == len(secrets) else 1


if __name__ == "__main__":
    sys.exit(main())
