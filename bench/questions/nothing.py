"""How sure a memory is that a question needs no document: the share of questions at which the weight of nothing reaches a limit.

    pip install ./client/python
    python3 bench/questions/nothing.py --server 127.0.0.1:50051 --qa train/memory/qa --qa train/memory/qa-second --mount books

Questions and general prompts for choosing are asked (not those that are reported): with all documents of their folder mounted beside those of
`--mount`, and with one document alone, for questions their own. Documents that the server does not have are ingested.
"""
import argparse
import pathlib

import recollect
from papers import ANSWERABLE, GENERAL, GENERAL_PROMPTS_FOR_CHOOSING, UNANSWERABLE, Papers

LIMITS = (0.02, 0.1, 0.5, 0.9, 0.98)


def weight_of_nothing(client, question, mounts):
    return client.chat(question, mounts=mounts, max_tokens=1).result().retrievals[0].nothing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--qa", type=pathlib.Path, action="append", required=True, help="a folder of documents with questions; repeat for several")
    parser.add_argument("--mount", action="append", default=[], help="a document that the server has; repeat for several")
    parser.add_argument("--limit", type=int, default=120, help="questions with an answer in each folder; a quarter as many without")
    arguments = parser.parse_args()
    found = {}
    with recollect.Client(arguments.server) as client:
        for folder in arguments.qa:
            papers = Papers(folder, "choosing")
            for missing in papers.documents.keys() - {one.id for one in client.documents()}:
                client.ingest(papers.documents[missing], id=missing)
            names = sorted(papers.documents)
            asked = [(one["kind"], one["q"], one["document"]) for one in papers.questions(arguments.limit)]
            asked += [(GENERAL, text, names[i % len(names)]) for i, text in enumerate(GENERAL_PROMPTS_FOR_CHOOSING)]
            for kind, question, document in asked:
                found.setdefault((kind, "all"), []).append(weight_of_nothing(client, question, [*arguments.mount, *names]))
                found.setdefault((kind, "one"), []).append(weight_of_nothing(client, question, [document]))
    print("| asked | documents mounted | number | " + " | ".join(f"{limit:g} or more" for limit in LIMITS) + " |\n|" + "---|" * (3 + len(LIMITS)))
    for kind in (ANSWERABLE, UNANSWERABLE, GENERAL):
        for mounted in ("all", "one"):
            weights = found[kind, mounted]
            shares = (f"{100 * sum(weight >= limit for weight in weights) / len(weights):.1f} %" for limit in LIMITS)
            print(f"| {kind} | {mounted} | {len(weights)} | " + " | ".join(shares) + " |")


if __name__ == "__main__":
    main()
