"""The second part of tools/demo: plain questions to a pretrained chat model about documents that were made up now, through the
recollect binary alone: serve, ingest, chat."""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import time

import demo

FIRST = "Ana Bruno Clara Dario Edda Felix Greta Hanno Ines Jonas Karla Luca Mara Nils Olga Pavel".split()
LAST = "Abel Brandt Castro Dorn Egger Falk Gruber Hahn Ibsen Jansen Keller Lang Moser Novak Orlow Prinz".split()
PLACES = "Altona Birkenau Corvara Dornach Elmau Fiesole Grado Hallein".split()


def minutes(rng):
    """The minutes of a meeting, and questions about them, each with what an answer has to contain."""
    chair, driver, owner = (f"{a} {b}" for a, b in zip(rng.sample(FIRST, 3), rng.sample(LAST, 3)))
    place, oven = rng.sample(PLACES, 2)
    price, quote, loaf, early = rng.randint(11, 89) * 10, rng.randint(1100, 2900), rng.randint(310, 390), rng.randint(10, 55)
    text = f"""Minutes of the weekly meeting of the bakery, held in the back room of the shop in {place}

{chair} was in the chair. {owner} took the minutes. {driver} sent apologies, as the van had to go to the garage.

1. Oven. The deck oven in {oven} loses heat on its left side. A fitter offered to repair it for {quote} euros. The offer was accepted,
because the fitter can come before Easter.
2. Prices. Flour for the dark loaf has become dearer. From the first of April the dark loaf costs {loaf / 100:.2f} euros. The half loaf stays as it is.
3. Van. The white van failed its test, because the brakes were worn. Until it is back the morning round leaves at 4:{early}.
4. Staff. Two apprentices start in September. Each of them gets {price} euros a month.

The next meeting is in the same place, but an hour later, as the chair has a funeral in the morning.
"""
    questions = [("Who was in the chair at the bakery's meeting?", chair.split()[0]),
                 ("How much does the repair of the deck oven cost?", str(quote)),
                 ("What does the dark loaf cost from April?", f"{loaf / 100:.2f}"),
                 ("Why did the white van fail its test?", "brakes"),
                 ("When does the morning round leave while the white van is away?", f"4:{early}")]
    return text, questions


def ask(binary, server, text, questions):
    """Each question about the minutes `text` in a conversation of its own. The answers' texts, and for how many the passage that
    answers was found and the answer has what it should."""
    answers, found, said = [], 0, 0
    for question, expected in questions:
        start = time.monotonic()
        chat = subprocess.run([binary, "chat", "--server", server.address, "--mount", "minutes,books", "--max-tokens", "48", "--json"],
                              input=question + "\n", capture_output=True, text=True)
        if chat.returncode != 0:
            sys.exit(f"chat: exit code {chat.returncode}: {chat.stderr}")
        result = json.loads(chat.stdout)
        hits = [hit for retrieval in result["retrievals"] for hit in retrieval["hits"]]
        best = max(hits, key=lambda hit: hit["weight"])
        ok = expected in result["text"]
        at = text.index(expected)
        found += any(hit["document"] == "minutes" and hit["text_begin"] <= at < hit["text_end"] for hit in hits)
        said += ok
        answers.append(result["text"])
        print(f"  > {question}\n    {'✓' if ok else '✗'} {' '.join(result['text'].split())}   (expected: {expected})\n"
              f"      from {best['document']}, bytes {best['text_begin']}-{best['text_end']}, weight {best['weight']:.2f}; "
              f"{time.monotonic() - start:.1f} s", flush=True)
    return answers, found, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"talking to {args.model} about made-up minutes of a meeting, among 22 books; seed {seed}")
    text, questions = minutes(random.Random(seed))
    (args.work / "minutes.txt").write_text(text)
    data_dir = str(args.work / "chat-data")
    with demo.Server(args.binary, data_dir, args.model) as server:
        for name in ("minutes", "books"):
            start = time.monotonic()
            ingest = subprocess.run([args.binary, "ingest", "--server", server.address, "--id", name, "--json",
                                     str(args.work / f"{name}.txt")], check=True, stdout=subprocess.PIPE, text=True)
            document = json.loads(ingest.stdout)
            print(f"ingested {name}: {document['tokens']} tokens, {document['chunks']} blocks in {time.monotonic() - start:.1f} s", flush=True)
        first, found, said = ask(args.binary, server, text, questions)
        server.stop()
    with demo.Server(args.binary, data_dir, args.model) as server:
        print("restarted; asking again")
        second, _, _ = ask(args.binary, server, text, questions)
        server.stop()
    print(f"same answers after the restart: {'yes' if first == second else 'NO'}")
    print(f"the passage was found for {found} of {len(questions)} questions; {said} answers were right")
    # What is asked of the service is that it finds the place, and finds it again; a model of 135 million parameters often misreads it.
    return 0 if first == second and found == len(questions) else 1


if __name__ == "__main__":
    sys.exit(main())
