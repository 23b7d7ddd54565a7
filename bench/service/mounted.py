"""What mounted documents cost a chat: the first token and the tokens after it, with nothing mounted and with each document, in turns.

    recollect serve --model smollm2 --data-dir DIR --http-listen 127.0.0.1:8080 &
    python3 bench/service/mounted.py http://127.0.0.1:8080 --mount books16k --mount books256k

Several addresses are several servers (an older program, or the model file without its memory), asked in turns; a server without a document
answers with nothing mounted alone. Ratios are taken round by round, against nothing mounted on the same server and against the first server's
same case; medians and quartiles. Every question is a new one, so that no answer begins where an earlier one has read. Answers are greedy. A document
that the model takes for useless costs a token nothing: ask what it can answer. Standard library only.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "questions"))
import server as http_server  # noqa: E402

NOTHING = "nothing"


def chat(server, question, mount, tokens):
    """-> (milliseconds to the first text, milliseconds of a token after it)."""
    body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": tokens, "stream": True, "ignore_eos": True}
    if mount != NOTHING:
        body["mounts"] = [mount]
    first = last = None
    begin = time.perf_counter()
    for event in http_server.events(server.open("POST", "/v1/chat/completions", json.dumps(body).encode())):
        last = time.perf_counter()  # tokens without a text, such as an end that is passed over, take time, too
        if first is None and any(choice["delta"].get("content") for choice in event["choices"]):
            first = last
    if first is None:
        raise SystemExit(f"nothing was said with {mount} mounted")
    return 1e3 * (first - begin), 1e3 * (last - first) / (tokens - 1)


def has(server, document):
    try:
        server.open("GET", f"/v1/documents/{document}").read()
    except http_server.ServerError as error:
        if error.status == 404:
            return False
        raise
    return True


def ratio(values, base):
    quarters = statistics.quantiles([a / b for a, b in zip(values, base)], n=4)
    return f"{quarters[1]:.2f} ({quarters[0]:.2f}–{quarters[2]:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--mount", action="append", default=[], help="a document; may be repeated")
    parser.add_argument("--question", default="What is said about this, and by whom?")
    parser.add_argument("--tokens", type=int, default=33, help="of an answer")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.tokens < 2 or arguments.rounds < 2:
        parser.error("--tokens and --rounds are at least 2")
    servers = {url: http_server.Server(url) for url in arguments.urls}
    cases = [(url, mount) for url, server in servers.items()
             for mount in [NOTHING, *(mount for mount in arguments.mount if has(server, mount))]]
    firsts, tokens = {case: [] for case in cases}, {case: [] for case in cases}
    for round_number in range(arguments.rounds + 1):
        for case in cases if round_number % 2 else reversed(cases):
            # As long for every case, and the beginning of none of the others.
            question = f"({chr(ord('A') + cases.index(case))}{1000 + round_number}) {arguments.question}"
            first_ms, token_ms = chat(servers[case[0]], question, case[1], arguments.tokens)
            if round_number > 0:  # the first one warms up
                firsts[case].append(first_ms)
                tokens[case].append(token_ms)
    print("| server | mounted | first token, ms | to nothing | to the first server | a token, ms | to nothing | to the first server |\n" + "|---" * 8 + "|")
    for url, mount in cases:
        columns = []
        for values in (firsts, tokens):
            same = (arguments.urls[0], mount)
            columns += [f"{statistics.median(values[url, mount]):.2f}", ratio(values[url, mount], values[url, NOTHING]),
                        ratio(values[url, mount], values[same]) if same in values else "–"]
        print(f"| {url} | {mount} | " + " | ".join(columns) + " |")


if __name__ == "__main__":
    main()
