"""Checks of the trainer of a memory with the small random base of tests/golden/memory: its form of the model computes what the oracle
computes, a step trains the adapter alone, and a run that resumes gets the same weights.

    python tests/train/run_check.py train memory/test_train.py
"""

import copy
import json
import lzma
import os
import pathlib
import random
import shutil
import sys
import tempfile
from unittest import mock

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "train"), str(ROOT / "bench" / "questions")]

from memory import data, goldens, keys, reader, reranker, train, train_reader, train_reranker  # noqa: E402
from memory.base import Base  # noqa: E402
from memory.export import load  # noqa: E402
from memory.oracle import SHARES_IN_TRAINING  # noqa: E402
import papers  # noqa: E402

GOLDEN = ROOT / "tests" / "golden" / "memory"
PAPERS = [
    {"id": f"note-{i}", "text": f"The {thing} is in the {place}.\nThe keys are with {who}. Nobody else has them, and the door stays shut.",
     "qa": [{"q": [f"Where is the {thing}?", f"Where do I find the {thing}?"], "a": place},
            {"q": ["Who has the keys?", "Whom do I ask for the keys?"], "a": who, "say": f"{who} has them."}],
     "none": ["When does the door open?"], "short": {"qa": [{"q": "who can let me in", "a": who}], "none": ["When can I come?"]}, "about": {"q": ["what is this"], "a": "is in the"}}
    for i, (thing, place, who) in enumerate([("ladder", "barn", "Ada"), ("boat", "shed", "Omar"), ("map", "mill", "Rosa")] * 4)]


def files(folder):
    """Writes books and papers that the tests are allowed to read. -> arguments of the trainer."""
    with lzma.open(ROOT / "examples" / "books.txt.xz", "rt", encoding="utf-8") as f:
        text = f.read(60_000)
    rows = [{"author": author, "title": "", "text": text[at:at + 30_000]} for author, at in (("Somebody", 0), ("Carroll, Lewis", 30_000))]
    books, qa = os.path.join(folder, "books.jsonl.xz"), os.path.join(folder, "qa")
    with lzma.open(books, "wt", encoding="utf-8") as f:
        f.write("".join(json.dumps(row) + "\n" for row in rows))
    os.makedirs(qa)
    with open(os.path.join(qa, "notes.jsonl"), "w", encoding="utf-8") as f:
        f.write("".join(json.dumps(paper) + "\n" for paper in PAPERS))
    return ["--base", str(GOLDEN / "base"), "--books", books, "--qa", qa, "--run", os.path.join(folder, "run"), "--init", str(GOLDEN),
            "--documents", "6", "--sessions", "24", "--workers", "1", "--general", "3"]


class Setting:
    """Base, adapter and batches as train.run makes them."""

    def __init__(self, words):
        self.args = train.arguments(words)
        self.oracle = goldens.open_models(GOLDEN)
        self.base, self.adapter = self.oracle.base, self.oracle.adapter.train()
        library = data.Library(self.args.books, "train")
        self.maker = data.Maker(self.base, self.adapter.config, library, data.read_papers(self.args.qa, "train"), "train", 6, 24)
        prompts = [self.maker.general_prompt(train.random.Random(i)) for i in range(3)]
        self.maker.own_answers = train.own_answers(self.base, prompts, "cpu", 5)

    def batch(self, step=0):
        return self.maker.batch(self.args.seed, step)


def with_setting(test):
    def run():
        os.chdir(ROOT)
        with tempfile.TemporaryDirectory() as folder:
            test(Setting(files(folder)))
    run.__name__ = test.__name__
    return run


def test_the_reader_learns_where_answers_stand():
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        words = files(folder)
        option = dict(zip(words[::2], words[1::2]))
        out = os.path.join(folder, "memory")
        shutil.copytree(GOLDEN, out, ignore=shutil.ignore_patterns("base"))
        asked = ["--base", option["--base"], "--memory", str(GOLDEN), "--out", out, "--books", option["--books"], "--qa", option["--qa"],
                 "--features", os.path.join(folder, "features.pt"), "--made", "4", "--steps", "40", "--rate", "3e-3"]
        train_reader.train(train_reader.arguments(asked))
        lessons = train_reader.Lessons(torch.load(os.path.join(folder, "features.pt")), Base.load(option["--base"]))
        for i in lessons.training:
            for k, first, last in lessons.gold[i]:
                assert lessons.made["answers"][i].lower() in "".join(lessons.texts[token] for token in lessons.block_tokens(i, k)[first:last + 1]).lower()
        assert {bool(gold) for gold in lessons.gold} == {True, False}
        trained = reader.open_reader(out, 64, 8, 63)
        fresh, every = reader.Reader(trained.config, 64, 8, 63).eval(), lessons.every_block(lessons.training)
        assert lessons.loss(trained, lessons.training, every) < 0.7 * lessons.loss(fresh, lessons.training, every)
        the_reranker_learns_which_sentences_answer(out, lessons, option["--base"], folder)


def the_reranker_learns_which_sentences_answer(out, lessons, base_file, folder):
    base, config = Base.load(base_file), {**reranker.GOLDEN_CONFIG, "layers": 1}
    asked = ["--base", base_file, "--memory", out, "--features", os.path.join(folder, "features.pt"),
             "--passages", os.path.join(folder, "passages.jsonl"), "--qa", os.path.join(folder, "qa"),
             "--general", os.path.join(folder, "general.txt"), "--steps", "60", "--rate", "1e-2"]
    pathlib.Path(folder, "general.txt").write_text("Who wrote Faust?\nhello\n")
    with mock.patch.object(train_reranker, "CONFIG", config), mock.patch.object(train_reranker, "BATCH", 4):
        train_reranker.train(train_reranker.arguments(asked))
    rows = train_reranker.found_passages(train_reranker.arguments(asked), base)
    assert len(rows) == len(lessons.training) and any(train_reranker.has_answer(row["passages"]) for row in rows)
    for row in rows:
        assert all(sentence and sentence == sentence.strip() for passage in row["passages"] for sentence, _ in passage)
    loss = lambda model: train_reranker.loss_of(model, rows, random.Random(1)).item()  # noqa: E731
    assert loss(reranker.open_reranker(out, base)) < 0.8 * loss(reranker.Reranker(config, base).eval())


def test_questions_about_one_paper_and_general_prompts_have_passages():
    own = list(train_reranker.own_rows(PAPERS[:1]))
    assert [(row["q"], [one for passage in row["passages"] for one, right in passage if right]) for row in own] == [
        ("who can let me in", ["The keys are with Ada."]), ("When can I come?", []), ("what is this", ["The ladder is in the barn."])]
    general, = train_reranker.general_rows(["Where do keys come from?"], own)
    assert ["The keys are with Ada.", False] in general["passages"][0]
    assert train_reranker.choose(general, random.Random(1)) and not train_reranker.has_answer(train_reranker.choose(general, random.Random(1)))
    assert all(train_reranker.has_answer(train_reranker.choose(own[0], random.Random(seed))) for seed in range(4))


def test_sentences_end_where_they_should():
    text = "He came. \"Who?\" she asked.\nNobody knew it. The end"
    assert train_reranker.sentences_of(text) == ["He came.", '"Who?"', "she asked.", "Nobody knew it.", "The end"]
    assert train_reranker.sentences_of(text, text.index(" asked"), text.index("it.")) == ["she asked.", "Nobody knew it."]
    assert train_reranker.sentences_of("One. Two\n\n - 3.5 kg \nfour") == ["One.", "Two", "- 3.5 kg", "four"]
    assert list(map(len, train_reranker.passages_of(40 * "Ten words. "))) == [21, 19]


@with_setting
def test_training_form_is_the_oracle(setting):
    batch, oracle = setting.batch(), setting.oracle
    oracle.config = {**oracle.config, "score_shares": SHARES_IN_TRAINING}
    with torch.no_grad():
        session = train.Reading(setting.base, setting.adapter, oracle.word_of, batch)
        own = session.target_log_probs()
    blocks = None
    for ids, lengths in zip(batch["documents"], batch["lengths"]):
        part = oracle.read(ids[:lengths.sum()].tolist())
        blocks = part if blocks is None else blocks.join(part)
    for b in range(0, len(batch["ids"]), 3):
        ids, first = batch["ids"][b].tolist(), int(batch["prompt_length"][b])
        found = oracle.retrieve(ids[:first], blocks)
        assert abs(found.weights.sum() - session.weights[b].sum()) < 1e-4
        for row in torch.nonzero(session.session == b)[:3, 0].tolist():
            at = int(session.position[row]) + 1
            want = oracle.step(ids[:at], first, blocks, found)[1][ids[at]]
            # Below this, what training adds to a probability counts.
            assert abs(own[row] - want) < 1e-3 if want > -12 else own[row] < -11, (b, row, own[row], want)


@with_setting
def test_documents_and_sessions(setting):
    held = [paper for paper in PAPERS if data.held_out(paper)]
    assert held and not [paper for paper in setting.maker.papers if data.held_out(paper)]
    assert data.read_papers(setting.args.qa, "test") == held
    choosing, reporting = ({prompt.casefold() for prompt in papers.general_prompts(half)} for half in papers.HALVES)
    trained = {prompt.casefold() for prompt in (ROOT / "train/memory/general.txt").read_text(encoding="utf-8").splitlines()}
    assert not trained & (choosing | reporting) and not {prompt.casefold() for prompt in data.GENERAL} & reporting
    kinds, config = set(), setting.adapter.config
    for step in range(16):
        batch = setting.batch(step)
        kinds |= set(batch["kinds"])
        assert batch["lengths"].max() <= config["chunk_tokens"] and (batch["lengths"].sum(1) <= config["segment_tokens"]).all()
        assert torch.equal(batch["ids"], setting.batch(step)["ids"])  # A function of seed and step.
        N = batch["lengths"].shape[1]
        for b, kind in enumerate(batch["kinds"]):
            gold = batch["gold"][b][batch["gold"][b] >= 0]
            assert (kind in ("paper", "fact", "needle", "quote", "blank")) == bool(len(gold)), kind
            assert (gold // N == batch["of"][b]).all()
            first, last = batch["prompt_length"][b], batch["length"][b]
            if kind in ("paper", "fact") and len(gold) == 1:
                d, n = divmod(int(gold), N)
                start = int(batch["starts"][d, n])
                text = setting.base.decode(batch["documents"][d, start:start + int(batch["lengths"][d, n])].tolist())
                answer = setting.base.decode(batch["ids"][b, first:last - 1].tolist())
                assert answer in text or answer.split()[0] in text, (answer, text)
            assert batch["weight"][b, :first - 1].sum() == 0 and batch["weight"][b, last - 1:].sum() == 0
    assert kinds == {"paper", "unknown", "fact", "needle", "quote", "blank", "next", "general", "text"}


@with_setting
def test_a_step_trains_the_adapter_alone(setting):
    trainer = train.Trainer(setting.base, setting.adapter, setting.args, "cpu")
    before = copy.deepcopy(setting.adapter.state_dict())
    tensors = [setting.base.embed, setting.base.final_norm, *(x for layer in setting.base.layers for x in layer.values())]
    kept = [x.clone() for x in tensors]
    batches = (setting.batch(step) for step in range(100))
    row, batch, session = trainer.train(next(batch for batch in batches if {"next", "general"} <= set(batch["kinds"])))
    assert all(torch.isfinite(torch.tensor(row[name])) for name in ("loss", "norm", *train.LOSS)), row
    for x, was in zip(tensors, kept):
        assert x.grad is None and not x.requires_grad and torch.equal(x, was)
    for name, p in setting.adapter.named_parameters():
        assert p.grad is not None and torch.isfinite(p.grad).all() and not torch.equal(p, before[name]), name
    kinds = train.by_kind(batch, session)
    assert sum(k["n"] for k in kinds.values()) == 24


@with_setting
def test_steps_make_the_loss_smaller(setting):
    setting.args.steps, setting.args.rate = 12, 5e-3
    trainer = train.Trainer(setting.base, setting.adapter, setting.args, "cpu")
    batch = setting.batch()
    rows = [trainer.train(batch)[0]["answer"] for _ in range(12)]
    assert rows[-1] < rows[0] - 0.2, rows


def test_a_run_that_resumes_gets_the_same_weights():
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        words = files(folder)
        train.run(train.arguments([*words, "--steps", "3"]))
        again = train.arguments([*words, "--steps", "3", "--run", os.path.join(folder, "again")])
        stopping = type("Stopping", (train.Trainer,), {"done": lambda self: 1.0 if self.step == 2 else super(stopping, self).done()})
        whole, train.Trainer = train.Trainer, stopping
        try:
            train.run(again)
        finally:
            train.Trainer = whole
        train.run(again)
        first, second = (torch.load(os.path.join(folder, name, "checkpoint.pt"), weights_only=True) for name in ("run", "again"))
        assert first["step"] == second["step"] == 3 and first["averaged"] == second["averaged"] == 1
        for what in ("adapter", "mean"):
            assert all(torch.equal(x, second[what][name]) for name, x in first[what].items()), what
        exported = load(os.path.join(folder, "run"), goldens.open_models(GOLDEN).base)
        assert all(torch.equal(x, first["mean"][name].bfloat16().float()) for name, x in exported.state_dict().items())


@with_setting
def test_keys_alone(setting):
    setting.args.steps, setting.args.minutes = 3, 0.05
    before = copy.deepcopy(setting.adapter.state_dict())
    keys.run(setting.base, setting.adapter, setting.maker, setting.args)
    for name, x in setting.adapter.state_dict().items():
        assert torch.equal(x, before[name]) != name.startswith(tuple(keys.RATES)), name
