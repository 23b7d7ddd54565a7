"""Imports of the checkpoints in tests/golden/hub: every byte of what is written, and what the program prints and returns.

    python tests/train/run_check.py train importer/test_import.py

What loads an imported model needs the built program: build/release/bin/recollect, or $RECOLLECT.
"""

import contextlib
import io
import json
import os
import pathlib
import stat
import subprocess
import sys
from unittest import mock

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import import_checkpoint  # noqa: E402
from families import build  # noqa: E402
from importer.testing import HUB, ROOT, TOKENIZER, place, tiny_ratplus, values  # noqa: E402

RECOLLECT = pathlib.Path(os.environ.get("RECOLLECT", ROOT / "build" / "release" / "bin" / "recollect"))
RAT = {"family": "rat-hub"}
REPORTS = json.loads((HUB / "reports.json").read_text())
OPTIONS = {"rat.pt": RAT, "rat_swa.pt": RAT, "rat_swa.bin": {**RAT, "head_dim": 2, "chunk": 16}}


def imported(at, name, **options):
    at.use(name)
    return at.run(**{**OPTIONS.get(name, {}), **options})


def written(at):
    return json.loads((at.out / "config.json").read_text()), load_file(at.out / "model.safetensors")


# -- What is written


def test_every_file_and_fingerprint_is_as_recorded():
    """SHA-256 of the files, fingerprints, config and assumptions. The records were written by the importer in C++ that this one
    replaced, so that both write the same bytes."""
    for name, by_dtype in REPORTS.items():
        for dtype, expected in by_dtype.items():
            with place() as at:
                report = imported(at, name, dtype=dtype)
                assert (report.pop("out"), report.pop("checkpoint")) == (str(at.out), str(at.source / name))
                assert report == expected, (name, dtype)


def test_ratplus_as_published():
    with place() as at:
        report = imported(at, "ratplus.pt", out=str(at.out) + "/")
        config, weights = written(at)
        assert config == report["config"] == {
            "format_version": 1, "architecture": "ratplus", "vocab_size": 400, "unk_id": 0, "eos_id": 2, "d": 8, "heads": 4, "head_dim": 2,
            "ffn": 32, "layers": 2, "context": 4096, "rope_base": 10000.0, "norm_eps": 1e-06, "recurrence": True,
            "local": {"window": 0, "dilation": 64, "initial": 0}, "adapted_dilations": [1, 64]}
        assert list(weights) and torch.equal(weights["embed.weight"], values("embedding.wte.weight", (400, 8)))
        published = values("backbone.layers.1.seq_layer.in_proj.weight", (40, 8))
        assert torch.equal(weights["layers.1.mixer.in_proj.weight"], published)
        assert (at.out / "tokenizer.model").read_bytes() == TOKENIZER.read_bytes()
        assert report["bytes"] == 4 * report["parameters"] and report["step"] == 52452
        assert stat.S_IMODE(at.out.stat().st_mode) & 0o444, "readable by whoever may read a new folder"


def test_older_ratplus_with_gates_apart_and_one_value_a_layer():
    with place() as at:
        imported(at, "ratplus_older_wonly.pth", dtype="bf16")
        config, weights = written(at)
        assert config["local"] == {"window": [0, 1024], "dilation": [16, -1], "initial": 4} and config["adapted_dilations"] == [16]
        layer = "backbone.layers.0.seq_layer."
        published = torch.cat([values(layer + "in_proj.weight", (32, 8)), values(layer + "fgate_proj.weight", (8, 8))])
        assert torch.equal(weights["layers.0.mixer.in_proj.weight"], published.bfloat16())


def test_a_baseline_without_gates_in_one_bf16_storage():
    with place() as at:
        imported(at, "dense.pt")
        config, weights = written(at)
        published = values("backbone.layers.1.seq_layer.in_proj.weight", (32, 8)).bfloat16().float()
        assert config["recurrence"] is False
        assert torch.equal(weights["layers.1.mixer.in_proj.weight"], torch.cat([published, torch.zeros(8, 8)]))  # gates that nobody reads


def test_a_hybrid_writes_its_attention_as_q_k_v():
    with place() as at:
        imported(at, "rat_swa.pt")
        config, weights = written(at)
        assert config["mixers"] == [{"kind": "rat", "chunk": 4, "shared_heads": 2, "positions": "rope"},
                                    {"kind": "attention", "window": 5, "positions": "rope"}]
        v, q, k = values("backbone.layers.3.seq_layer.in_proj.weight", (24, 8)).split(8)
        assert torch.equal(weights["layers.3.mixer.in_proj.weight"], torch.cat([q, k, v]))
        assert weights["layers.2.mixer.in_proj.weight"].shape == (32, 8) and "layers.1.mixer.gate_bias" not in weights


def test_a_hybrid_computes_what_the_oracle_does():
    """The last rows of train/eval/hub_fixtures.py, which reads the published rows by itself."""
    sequence, logits = json.loads((HUB / "rat_swa.json").read_text()), load_file(HUB / "rat_swa.safetensors")["logits"]
    with place() as at:
        imported(at, "rat_swa.pt")
        computed = build(*written(at)).forward(sequence["ids"] + sequence["generated"])[-8:]
        assert (computed - logits).abs().max() <= 1e-5 * logits.abs().max()


def test_without_configuration_shapes_tell():
    with place() as at:
        at.save(tiny_ratplus())
        report = at.run(head_dim=2)
        config = report["config"]
        assert [config[key] for key in ("d", "heads", "ffn", "layers", "adapted_dilations")] == [4, 2, 16, 2, [1]]
        assert "local.dilation 1" in report["assumptions"] and "recurrence true: there are gates" in report["assumptions"]


# -- What it holds in memory


def private_bytes():
    """Memory of this process that is no file's."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def test_holds_less_than_the_largest_tensor():
    """Four tensors of 32 MiB, which are one storage: the file is small, and each is a tensor of its own in what is written. The mapped
    file is not counted; its pages can be dropped at any time."""
    width, largest = 2**21, 4 * 2**21 * 4
    weights, shared = tiny_ratplus(), torch.zeros(4 * 2**21)
    for name in weights:
        if "hidden_layer.fc" in name:
            weights[name] = shared.view(-1, 4) if "fc1" in name else shared.view(4, -1)
    with place() as at:
        at.save(weights)
        weights = shared = None
        at.run(head_dim=2)  # what the libraries take once
        at.out.rename(at.root / "first")
        before, most = private_bytes(), [0]

        def progress(done, total):
            most[0] = max(most[0], private_bytes())

        report = at.run(progress, head_dim=2, dtype="bf16")
        assert report["config"]["ffn"] == width and report["bytes"] > 2 * largest
        assert most[0] - before < largest, (most[0] - before, largest)


# -- The program


def program(*arguments):
    """Exit code, output and error of the program, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch("sys.argv", ["import_checkpoint.py", *map(str, arguments)]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = import_checkpoint.main()
        except SystemExit as exit_:
            code = exit_.code
    return code, out.getvalue(), err.getvalue()


def test_reports_as_text_and_as_json():
    with place() as at:
        at.use("ratplus.pt")
        code, out, err = program("--from", "ratplus-hub", at.source, "--out", at.root / "a")
        assert code == 0 and err == "", err
        for text in ("ratplus, 2 layers of width 8, 14 tensors, 5032 parameters", "MiB of bf16", "rope_base 10000", "step                     52452",
                     "fingerprint, run in fp32"):
            assert text in out, (text, out)
        code, out, err = program("--from", "ratplus-hub", at.source, "--out", at.root / "b", "--dtype", "fp32", "--json")
        report = json.loads(out)
        assert code == 0 and report["bytes"] == 4 * 5032 and len(report["sha256"]["model.safetensors"]) == 64
        assert list(report)[:4] == ["out", "checkpoint", "architecture", "tensors"]


def test_mistakes_have_their_exit_codes():
    with place() as at:
        at.use("rat_swa.bin")
        rat = ("--from", "rat-hub", at.source, "--out", at.out)
        assert program(at.source, "--out", at.out)[0] == 2  # without --from
        assert program("--from", "gpt-hub", at.source, "--out", at.out)[0] == 2
        assert program(*rat, "--head-dim", "0")[0] == 2 and program(*rat, "--chunk", "many")[0] == 2
        assert program("--from", "rat-hub", at.root / "none", "--out", at.out)[0] == 3
        code, out, err = program("--from", "ratplus-hub", at.source, "--out", at.out)
        assert code == 4 and out == "" and "gate_bias [8] is left over" in err and "--head-dim" in err, err
        assert err.startswith("import_checkpoint: INVALID_ARGUMENT: ") and err.count("\n") == 1
        error = json.loads(program("--from", "ratplus-hub", at.source, "--out", at.out, "--json")[2])["error"]
        assert error["code"] == "INVALID_ARGUMENT" and "left over" in error["message"]
        assert program("--from", "rat-hub", at.source, "--out", at.source)[0] == 7  # not empty
        assert not at.out.exists()
        assert program(*rat, "--head-dim", "2", "--chunk", "16")[0] == 0


def test_an_interrupted_program_takes_away_what_it_wrote():
    with place() as at:
        at.use("ratplus.pt")
        with mock.patch("importer.directory.header", side_effect=KeyboardInterrupt):
            code, out, err = program("--from", "ratplus-hub", at.source, "--out", at.out)
        assert code == 6 and "CANCELLED: the import was interrupted; nothing is left of it" in err and at.left() == ["in"], (code, err)


# -- With the service


def recollect(*arguments):
    """Exit code, output and error."""
    done = subprocess.run([RECOLLECT, *map(str, arguments)], capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
    return done.returncode, done.stdout, done.stderr


def with_program(check):
    def run():
        if RECOLLECT.exists():
            return check()
        print("skipped:", RECOLLECT, "is not built")

    run.__name__ = check.__name__
    return run


@with_program
def test_fingerprints_are_those_of_the_loaded_model():
    """Of weights in either format, with patterns by layer and with mixers."""
    for name, dtype in (("ratplus.pt", "bf16"), ("ratplus_older_wonly.pth", "bf16"), ("ratplus_older_wonly.pth", "fp32"), ("rat_swa.pt", "fp32")):
        with place() as at:
            report = imported(at, name, dtype=dtype)
            code, out, err = recollect("model", "--model", at.out, "--data-dir", ":memory:", "--dtype", "fp32", "--json")
            assert code == 0, err
            assert json.loads(out)["fingerprint"] == report["fingerprint"]["fp32"], name


@with_program
def test_an_imported_hybrid_generates_what_the_oracle_does():
    """From a published checkpoint to the tokens of the oracle in train/eval/hub_fixtures.py, which reads the published rows by itself."""
    oracle = json.loads((HUB / "rat_swa.json").read_text())
    with place() as at:
        imported(at, "rat_swa.pt")
        generate = ("generate", "--model", at.out, "--data-dir", at.root / "data", "--dtype", "fp32", "--json", "--prompt", oracle["prompt"],
                    "--max-tokens", "20", "--ignore-eos")
        code, out, err = recollect(*generate)
        assert code == 0, err
        answer = json.loads(out)
        assert answer["tokens"] == oracle["generated"] and answer["usage"]["prompt_tokens"] == len(oracle["ids"])
        code, out, err = recollect(*generate, "--dilation", "16", "--window", "3")
        assert code == 4 and "dilation is 16, the checkpoint is adapted to 4" in err and "window is 3, the checkpoint is adapted to 5" in err, err


@with_program
def test_requests_may_ask_for_what_is_added_to_the_config():
    """The keys that docs/importing.md adds by hand."""
    with place() as at:
        imported(at, "ratplus.pt")
        generate = ("generate", "--model", at.out, "--data-dir", ":memory:", "--dtype", "fp32", "--prompt", "the whale", "--max-tokens", "4", "--context",
                    "8192", "--dilation", "16", "--window", "64", "--initial", "2", "--top-k-blocks", "3", "--json")
        code, out, err = recollect(*generate)
        assert code == 4, err
        for text in ("dilation is 16, the checkpoint is adapted to 1, 64", "window is 64", "initial is 2",
                     "context is 8192, the checkpoint has no context to stretch", "top_k_blocks is 3"):
            assert text in err, (text, err)
        keys = (ROOT / "docs" / "importing.md").read_text().split("```json\n")[1].split("```")[0]
        config = written(at)[0] | json.loads("{" + keys + "}")
        (at.out / "config.json").write_text(json.dumps(config))
        code, out, err = recollect(*generate)
        assert code == 0 and len(json.loads(out)["tokens"]) == 4, err
