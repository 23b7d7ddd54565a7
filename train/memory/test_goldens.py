"""The committed golden case of tests/golden/memory is what the oracle computes with its models; the oracle's parts against others.

    python tests/train/run_check.py train memory/test_goldens.py
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "train"))

from families.llama import LlamaModel  # noqa: E402
from memory import goldens, judge, reader, reranker  # noqa: E402
from memory.export import load, save  # noqa: E402
from memory.oracle import choose  # noqa: E402
from memory.words import block_lengths, number_words, word_of  # noqa: E402
from test_goldens import same  # noqa: E402

GOLDEN = ROOT / "tests" / "golden" / "memory"


def test_golden():
    case, oracle = json.loads((GOLDEN / "case.json").read_text()), goldens.open_models(GOLDEN)
    made, files, gap = goldens.compute(oracle, case["text"], case["question"], short=True)
    assert {**made, "seed": case["seed"], "torch": case["torch"]} == case
    assert gap > goldens.SMALLEST_GAP / 2 and goldens.lively(oracle, files)
    assert oracle.word_list == json.loads((GOLDEN / "words.json").read_text())
    for name, tensors in files.items():
        same(tensors, load_file(GOLDEN / f"{name}.safetensors"), name)


def test_judge_golden():
    with tempfile.TemporaryDirectory() as folder:
        judge.golden(f"{folder}/judge.json")
        made = json.loads(pathlib.Path(folder, "judge.json").read_text())
    committed = json.loads((ROOT / "tests/model/judge_golden.json").read_text())
    for of_made, of_committed in zip(made["cases"], committed["cases"], strict=True):
        assert np.allclose(of_made.pop("scores"), of_committed.pop("scores"), rtol=0, atol=1e-9)
    assert made == committed


def test_reader_golden():
    made = reader.golden_case(GOLDEN, reader.open_reader(GOLDEN, 64, 8, 63))
    same(made, load_file(GOLDEN / "reader_case.safetensors"), "reader_case", bf16=("states",))


def test_reranker_golden():
    oracle = goldens.open_models(GOLDEN)
    texts, made = reranker.golden_case(reranker.open_reranker(GOLDEN, oracle.base), json.loads((GOLDEN / "case.json").read_text()))
    assert [list(one) for one in texts] == json.loads((GOLDEN / "reranker_case.json").read_text())
    same(made, load_file(GOLDEN / "reranker_case.safetensors"), "reranker_case")


def test_a_judge_without_a_reranker_goes_on_with_one():
    base, config = goldens.open_models(GOLDEN).base, json.loads((GOLDEN / "memory.json").read_text())
    old = {**config["judge"], "features": judge.FEATURES[:judge.WITHOUT_RERANKER], "linear": config["judge"]["linear"][:judge.WITHOUT_RERANKER], "hidden": [judge.WITHOUT_RERANKER * [1.0] + [2.0, 3.0]]}
    with tempfile.TemporaryDirectory() as folder:
        reranker.save(reranker.open_reranker(GOLDEN, base), folder, {**config, "judge": old})
        made = json.loads(pathlib.Path(folder, "memory.json").read_text())["judge"]
    assert made["features"] == list(judge.FEATURES) and made["linear"] == old["linear"] + [0, 0] and made["hidden"] == [old["hidden"][0] + [0, 0]]


class MadeUpQuestions:
    """Of each question's three candidates that one is right whose `asked` and `span` are both large or both small, which no linear function
    finds."""

    def __init__(self, count):
        draw, at = np.random.default_rng(3), [judge.FEATURES.index(name) for name in ("asked", "span")]
        self.rows, self.at, self.answerable = [{}] * count, np.arange(0, 3 * count + 1, 3), np.full(count, True)
        self.x = np.zeros((3 * count, len(judge.FEATURES)))
        self.x[:, at] = draw.normal(size=(3 * count, 2))
        self.right = self.x[:, at[0]] * self.x[:, at[1]] > 0

    def candidates(self, i):
        return slice(self.at[i], self.at[i + 1])


def test_judge_learns_what_is_right():
    questions = MadeUpQuestions(400)
    made = judge.fit(questions, range(300))
    z = judge.scores(made, questions.x)
    right = [questions.right[questions.candidates(i)][np.argmax(z[questions.candidates(i)])] for i in range(300, 400)]
    assert np.mean(right) > 0.8, np.mean(right)


def test_nothing_mounted_is_the_base():
    oracle = goldens.open_models(GOLDEN)
    tensors = load_file(GOLDEN / "base" / "model.safetensors")
    prompt = oracle.base.chat("Who are you?")
    want = LlamaModel(goldens.BASE, tensors).forward(prompt)[-1]
    assert (oracle.step(prompt, len(prompt))[0] - want).abs().max() < 1e-3


def test_weights_that_nothing_takes_leave_the_base():
    oracle = goldens.open_models(GOLDEN)
    prompt = oracle.base.chat("Who are you?")
    blocks = oracle.read(oracle.base.encode("A sentence of a document that nobody asks for."))
    with torch.no_grad():
        oracle.adapter.score.nothing.bias.fill_(200.0)
        oracle.adapter.pointer.gate.bias.fill_(-200.0)
    want = oracle.step(prompt, len(prompt))[1]
    got = oracle.step(prompt, len(prompt), blocks, oracle.retrieve(prompt, blocks))[1]
    assert (got - want).abs().max() < 1e-5


def test_a_document_without_pointer_keys_is_read_but_not_copied():
    oracle = goldens.open_models(GOLDEN)
    prompt, blocks = oracle.base.chat("Who are you?"), oracle.read([7])
    logits, log_probs = oracle.step(prompt, len(prompt), blocks, oracle.retrieve(prompt, blocks))
    assert not blocks.pointed.any() and torch.equal(log_probs, logits.log_softmax(-1))


def test_block_lengths():
    config = {"chunk_tokens": 5, "min_chunk_tokens": 3, "segment_tokens": 12}
    ends = torch.tensor([False, True]).numpy()
    lengths = lambda *tokens: block_lengths(tokens, ends, config)
    assert lengths() == [] and lengths(0) == [1] and lengths(0, 0, 1, 0, 0) == [5]
    assert lengths(0, 0, 1, 0, 0, 0) == [3, 3]
    assert lengths(0, 1, 0, 0, 0, 0) == [5, 1]  # an end before the fewest tokens counts for nothing
    assert lengths(0, 0, 1, 0, 1, 0) == [5, 1]  # the longest
    assert lengths(*[0] * 13) == [5, 5, 2, 1]  # a segment's end ends a block


def test_words():
    words = {" Walking": "walk", "walked": "walk", "bed": "bed", "Boxes": "boxe", " matches": "match", " LÄUFTS": "läuft", "\n": "",
             "sing": "sing", "kindly": "kind"}
    assert {text: word_of(text) for text in words} == words
    assert number_words(["The", " the", "plan", " Plans"]) == ([0, 0, 1, 1], ["the", "plan"])


def test_choose():
    scores, follows = torch.tensor([1.0, 3.0, 2.0, 0.0]), torch.tensor([False, True, True, False])
    chosen, weights, nothing = choose(scores, torch.tensor(0.5), follows, 2, torch.tensor(1.0))
    # Hits 1 and 2; block 2 is the successor of 1, too, and nothing follows it in its segment.
    shares = torch.tensor([3.0, 2.0, 2.0, 0.5]).softmax(0)
    assert chosen.tolist() == [1, 2] and torch.allclose(weights, torch.stack([shares[0], shares[1] + shares[2]]))
    assert torch.allclose(nothing, shares[3])
    assert choose(scores[:1], torch.tensor(0.5), follows[:1], 2, torch.tensor(1.0))[0].tolist() == [0]


def test_export_round_trip():
    oracle = goldens.open_models(GOLDEN)
    with tempfile.TemporaryDirectory() as folder:
        save(oracle.adapter, folder)
        again = load(folder, oracle.base)
    for name, x in oracle.adapter.state_dict().items():
        assert torch.equal(again.state_dict()[name], x), name  # The committed weights are bf16 values.
