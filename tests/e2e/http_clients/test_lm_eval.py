"""lm_eval's `local-completions` with the task files in tasks/: generation like RULER's, and log likelihoods."""
import json
import pathlib
import random
import subprocess
import sys

import pytest
import requests
from conftest import BOOKS, MODEL

TASKS = pathlib.Path(__file__).parent / "tasks"


def needles(rng, count=8, characters=16_000):
    """Texts with one number each, of some 5000 tokens."""
    for i, name in enumerate(rng.sample(["Ahab", "Emma", "Darcy", "Ishmael", "Pip", "Alice", "Watson", "Jane"], count)):
        begin, cut, number = 100_000 + 20_000 * i, rng.randrange(500, characters - 500), str(rng.randrange(10_000, 100_000))
        text = BOOKS[begin:begin + characters].decode()
        needle = f"\nThe secret number of {name} is {number}. Remember it: {number} is the secret number of {name}.\n"
        yield {"text": text[:cut] + needle + text[cut:], "name": name, "number": number}


def choices(rng, count=12):
    """A passage, and which words follow it: its own, where it stood before, or those of other places."""
    for i in range(count):
        words = BOOKS[400_000 + 10_000 * i:410_000 + 10_000 * i].decode().split()[1:-1]
        passage = " ".join(words[:60])
        ends = [" " + " ".join(words[60 + 200 * n:66 + 200 * n]) for n in range(4)]
        order = rng.sample(range(4), 4)
        yield {"text": f"{passage}{ends[0]}\n\n{passage}", "choices": [ends[n] for n in order], "answer": order.index(0)}


def post(server, path, fields):
    answer = requests.post(f"http://{server}{path}", json=fields, timeout=60)
    answer.raise_for_status()
    return answer.json()


@pytest.fixture(scope="module")
def results(server, tmp_path_factory):
    work = tmp_path_factory.mktemp("lm_eval")
    rng = random.Random(7)
    data = {"needle": needles(rng), "mounted_needle": [{"name": "Ahab", "number": "48213"}], "next_words": choices(rng),
            "passages": [{"text": BOOKS[begin:begin + 2000].decode()} for begin in (700_000, 800_000)]}
    for name, rows in data.items():
        (work / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    subprocess.run([sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--model_args",
                    f"model={MODEL},base_url=http://{server}/v1/completions,max_length=20000,max_retries=1,custom_prefix_token_id=2", "--include_path", TASKS,
                    "--tasks", ",".join(data), "--batch_size", "4", "--output_path", work / "out", "--log_samples"], cwd=work, check=True)
    (summary,) = (work / "out").rglob("results_*.json")
    samples = {path.name.split("_2")[0].removeprefix("samples_"): [json.loads(line) for line in path.read_text().splitlines()]
               for path in (work / "out").rglob("samples_*.jsonl")}
    return json.loads(summary.read_text())["results"], samples


def test_numbers_in_a_prompt_and_in_a_mounted_document_are_found(results):
    measured, samples = results
    assert len(samples["needle"]) == 8
    assert measured["needle"]["exact_match,number"] >= 0.75, samples["needle"]
    assert measured["mounted_needle"]["exact_match,number"] == 1


def test_the_words_that_stood_there_are_the_likeliest(results):
    measured, samples = results
    assert len(samples["next_words"]) == 12
    assert measured["next_words"]["acc,none"] >= 0.75


def test_passages_have_few_bits_per_byte(results):
    assert 0.5 < results[0]["passages"]["bits_per_byte,none"] < 3


def test_log_likelihoods_are_those_of_v1_score(results, server):
    for sample in results[1]["next_words"][:3]:
        text = sample["doc"]["text"]
        for choice, response in zip(sample["doc"]["choices"], sample["filtered_resps"], strict=True):
            context, whole = (post(server, "/tokenize", {"prompt": part})["tokens"] for part in (text, text + choice))
            scored = post(server, "/v1/score", {"prompt": whole})
            total = sum(scored["logprobs"][len(context):])
            greedy = scored["argmax"][len(context):] == whole[len(context):]
            assert abs(float(response[0]) - total) < 1e-3 and str(response[1]) == str(greedy)
