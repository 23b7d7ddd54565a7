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
SHORT = 400_000  # characters of the books: more than 100 000 tokens
LEAST_FOUND = 0.7  # of the questions: below it the demo fails
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


def price_list(rng):
    """A page of prices, and questions about it."""
    goods = rng.sample("rope lanterns oars sailcloth anchors pulleys varnish nails".split(), 5)
    prices = {good: rng.randint(12, 98) for good in goods}
    lines = "\n".join(f"{good.capitalize()}, each or by the coil: {price} crowns." for good, price in prices.items())
    text = f"Price list of the ship chandler at the north quay, valid until midsummer\n\n{lines}\n"
    return text, [(f"What does the ship chandler ask for {good}?", str(prices[good])) for good in goods[:2]]


def facts(rng):
    """Sentences that stand alone somewhere, and a question about each in other words."""
    name, town, dog = rng.choice(FIRST), rng.choice(PLACES), rng.choice("Bello Caesar Fips Nero Rolf Struppi".split())
    year, floor = rng.randint(1860, 1938), rng.choice("second third fourth fifth".split())
    return [(f"The lighthouse of {town} was put out of service in {year}.", f"In which year did the lighthouse of {town} stop working?", str(year)),
            (f"The notary's dog answers to the name of {dog}.", "What is the notary's dog called?", dog),
            (f"Doctor {name} Winter has her practice on the {floor} floor of the post office.", "On which floor is Doctor Winter's practice?", floor)]


def hide(book, rng):
    """The book with all of it between its sentences, and the questions with what an answer has to contain."""
    pages, questions = [], []
    for make in (minutes, price_list):
        page, asked = make(rng)
        pages.append(f"\n\n{page}\n")
        questions += asked
    for sentence, question, answer in facts(rng):
        pages.append(f" {sentence}")
        questions.append((question, answer))
    rng.shuffle(pages)
    slot = len(book) // len(pages)
    for i, page in reversed(list(enumerate(pages))):
        at = book.index(". ", rng.randrange(i * slot, i * slot + slot * 3 // 4)) + 1
        book = book[:at] + page + book[at:]
    return book, questions


def ask(binary, server, book, questions):
    """Each question about the `book` in a conversation of its own. The answers' texts, and for how many the passage that answers
    was found and the answer has what it should."""
    answers, found, said = [], 0, 0
    for question, expected in questions:
        start = time.monotonic()
        chat = subprocess.run([binary, "chat", "--server", server.address, "--mount", "book", "--max-tokens", "32", "--json"],
                              input=question + "\n", capture_output=True, text=True)
        if chat.returncode != 0:
            sys.exit(f"chat: exit code {chat.returncode}: {chat.stderr}")
        result = json.loads(chat.stdout)
        hits = [hit for retrieval in result["retrievals"] for hit in retrieval["hits"]]
        best = max(hits, key=lambda hit: hit["weight"])
        passage = book[best["text_begin"]:best["text_end"]].decode(errors="replace")
        ok = expected in result["text"]
        found += any(expected.encode() in book[hit["text_begin"]:hit["text_end"]] for hit in hits)
        said += ok
        answers.append(result["text"])
        print(f"  > {question}\n    {'✓' if ok else '✗'} {' '.join(result['text'].split())}   (expected: {expected}; {time.monotonic() - start:.1f} s)\n"
              f"      from bytes {best['text_begin']}-{best['text_end']}, weight {best['weight']:.2f}: {' '.join(passage.split())[:90]} …", flush=True)
    return answers, found, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--long", action="store_true", help="all 22 books, 1.1 million tokens, in place of the first 110 000 tokens of them")
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"talking to {args.model} about made-up minutes, a price list and some facts, hidden in books; seed {seed}")
    books = (args.work / "books.txt").read_text()
    text, questions = hide(books if args.long else books[:SHORT], random.Random(seed))
    (args.work / "book.txt").write_text(text)
    book = text.encode()
    data_dir = str(args.work / "chat-data")
    with demo.Server(args.binary, data_dir, args.model) as server:
        start = time.monotonic()
        # Its progress goes to the terminal.
        ingest = subprocess.run([args.binary, "ingest", "--server", server.address, "--id", "book", "--json", str(args.work / "book.txt")],
                                check=True, stdout=subprocess.PIPE, text=True)
        document = json.loads(ingest.stdout)
        print(f"ingested the book: {document['tokens']} tokens, {document['chunks']} blocks in {time.monotonic() - start:.1f} s", flush=True)
        first, found, said = ask(args.binary, server, book, questions)
        server.stop()
    with demo.Server(args.binary, data_dir, args.model) as server:
        print("restarted; asking again")
        second, _, _ = ask(args.binary, server, book, questions)
        server.stop()
    print(f"same answers after the restart: {'yes' if first == second else 'NO'}")
    print(f"the passage was found for {found} of {len(questions)} questions; {said} answers were right")
    # What is asked of the service is that it finds the place, and finds it again; a model of 135 million parameters often misreads it.
    return 0 if first == second and found >= LEAST_FOUND * len(questions) else 1


if __name__ == "__main__":
    sys.exit(main())
