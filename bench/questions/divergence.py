"""How far mounted documents that have nothing to do with a chat change its answers: the divergence (KL) from the model without them, nats a token.

    pip install ./client/python
    python3 bench/questions/divergence.py --server 127.0.0.1:50051 --mount books [--answers 8] [--tokens 64]

Answers to general prompts are drawn at temperature 1 with nothing mounted, and scored with the documents and without. The mean difference of their log
probabilities estimates the divergence without bias. It is 0 where the model's own words are chosen without reading. Also printed: how many greedy answers
stay as they are.
"""
import argparse
import math
import statistics

import recollect
from papers import general_prompts

START, END = 1, 2  # <|im_start|> and <|im_end|> of SmolLM2
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def chat_tokens(client, question):
    """The tokens of a chat with this one question, in ChatML as SmolLM2 has it: a text cannot have control tokens."""
    def turn(role, text):
        return [START, *client.score(f"{role}\n{text}").tokens, END, *client.score("\n").tokens]
    return [*turn("system", SYSTEM), *turn("user", question), START, *client.score("assistant\n").tokens]


def answer(client, question, tokens, **options):
    """Of all its tokens: a chat would end an answer that only repeats itself, and `generate` below does not."""
    return client.chat(question, max_tokens=tokens, stop_repetition=False, **options).result()


def log_ratios(client, prompt, answer, mounts):
    """Of each token of an answer: its log probability with nothing mounted less that with the documents."""
    alone, beside = (client.score([*prompt, *answer], mounts=names, flush_after=[len(prompt)]).logprobs[len(prompt):] for names in ((), mounts))
    return [a - b for a, b in zip(alone, beside)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--mount", action="append", required=True, help="a document; repeat the option for several")
    parser.add_argument("--answers", type=int, default=8, help="drawn for each prompt")
    parser.add_argument("--tokens", type=int, default=64, help="of an answer at most")
    arguments = parser.parse_args()
    means, same = [], 0  # of the log ratios of each prompt; greedy answers
    with recollect.Client(arguments.server) as client:
        for text in general_prompts("reporting"):
            prompt = chat_tokens(client, text)
            alone, beside = (answer(client, text, arguments.tokens, mounts=names) for names in ((), arguments.mount))
            if client.generate(prompt, max_tokens=arguments.tokens).result().text != alone.text:
                raise SystemExit(f"the model's chat template is not SmolLM2's: {alone.text!r} is not what its tokens give")
            same += alone.text == beside.text
            if beside.retrievals[-1].nothing == 1:  # the judge has left the answer to the model
                means.append(0)
                continue
            drawn = [answer(client, text, arguments.tokens, temperature=1, seed=seed).tokens for seed in range(arguments.answers)]
            means.append(statistics.fmean(statistics.fmean(log_ratios(client, prompt, ids, arguments.mount)) for ids in drawn if ids))
            print(f"{means[-1]:8.4f}  {text}")
    error = statistics.stdev(means) / math.sqrt(len(means))
    print(f"{statistics.fmean(means):8.4f}  nats a token, ± {error:.4f} (standard error over {len(means)} prompts); "
          f"{same} of {len(means)} greedy answers stay as they are")


if __name__ == "__main__":
    main()
