"""The mistakes a user of the importer can make: each is named, and nothing stays behind.

    python tests/train/run_check.py train importer/test_refusals.py
"""

import multiprocessing
import os
import pathlib
import shutil
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from importer.refusal import Refusal  # noqa: E402
from importer.testing import ROOT, backbone, easydict, place, tiny_ratplus, values  # noqa: E402

WRONG = "INVALID_ARGUMENT"
LAYER = "backbone.layers.0."


def test_reports_all_that_is_wrong_at_once():
    weights = tiny_ratplus()
    del weights[LAYER + "seq_layer.input_norm.weight"]
    weights[LAYER + "seq_layer.in_proj.weight"] = torch.zeros(4, 20)
    weights[LAYER + "seq_layer.out_proj.weight"] = torch.zeros(4, 4).T.clone(memory_format=torch.preserve_format)
    weights[LAYER + "hidden_layer.ln.weight"] = torch.zeros(4, dtype=torch.int32)
    weights["backbone.rope"] = torch.zeros(2)
    weights["\x1b]0;title"] = torch.zeros(1)
    weights["backbone._orig_mod.layers.0.hidden_layer.fc1.weight"] = torch.zeros(16, 4)
    weights[LAYER + "hidden_layer.fc2.weight"] = torch.zeros(4, 16).to_sparse()
    weights["note"] = "text"
    config = backbone(num_layers=3, d_model=8, ln="layernorm", bias=1, seq_cell={"dilation_size": [1, 2], "num_head": 0})
    with place() as at:
        at.save(weights, easydict(config))
        at.refuses(
            WRONG, "a.pt: ", " problems: ", LAYER + "seq_layer.input_norm.weight is missing, expected shape [4]",
            LAYER + "seq_layer.in_proj.weight has shape [4, 20], expected [20, 4]",
            LAYER + "hidden_layer.ln.weight is int32, expected float32, bfloat16 or float16",
            LAYER + "seq_layer.out_proj.weight is not contiguous: strides [1, 4]",
            LAYER + "hidden_layer.fc2.weight is torch.sparse_coo on cpu, expected a dense tensor",
            "backbone.rope [2] is left over", "\\x1b]0;title [1] is left over", "note is text, expected a tensor",
            LAYER + "hidden_layer.fc1.weight appears twice", "backbone.layers.2.hidden_layer.fc2.weight is missing",
            "d_model is 8 in the configuration, 4 in the shapes", 'config.model.backbone.ln is "layernorm", expected "rmsnorm"',
            "config.model.backbone.bias is 1, expected a bool", "config.model.backbone.seq_cell.num_head is 0, expected an int of 1 or above",
            "2 values of dilation, expected one or 3", head_dim=2)


def test_thousands_of_problems_make_a_short_message():
    """One name stands for thousands of layers that are missing."""
    with place() as at:
        at.save({**tiny_ratplus(), "backbone.layers.4000.rope": torch.zeros(1)})
        assert len(at.refuses(WRONG, " problems: ", "; and so on")) < 10000


def test_a_dict_of_something_else_makes_a_short_message():
    with place() as at:
        at.save({**{f"entry {i}": i for i in range(3000)}, "x" * 100000: torch.zeros(1)})
        assert len(at.refuses(WRONG, "entry 0 is an int, expected a tensor", "and so on")) < 10000
        at.save({"x" * 100000: torch.zeros(1), 7: torch.zeros(1)})
        at.refuses(WRONG, "a name of 100000 characters, expected at most 512", "(an int as a name) is a Tensor")


def test_impossible_sizes():
    with place() as at:
        at.save(tiny_ratplus())
        at.refuses(WRONG, "head_dim is 128, expected an even divisor of the width 4", "--head-dim")
        at.save(tiny_ratplus(), easydict(backbone(seq_cell={"d_head": 2})))
        at.refuses(WRONG, "head_dim is 2 in the configuration, 4 by option", head_dim=4)
        at.save({})
        at.refuses(WRONG, "no model of these sizes: 0 layers")
        at.save(tiny_ratplus())
        at.refuses(WRONG, "gate_bias is missing", "--chunk", family="rat-hub", head_dim=2)
        torch.save(1, at.file)
        at.refuses(WRONG, "the file holds an int, expected a dict")
        at.save(None)
        at.refuses(WRONG, 'the file holds None under "task"')


def test_rat_needs_a_rat_layer_and_its_positions():
    weights = tiny_ratplus()
    for layer in range(2):
        weights[f"backbone.layers.{layer}.seq_layer.in_proj.weight"] = torch.zeros(12, 4)
    with place() as at:
        at.save(weights, easydict({"model": {"backbone": {}, "embedding": {"pe": {"_name_": "interrope"}}}}))
        at.refuses(WRONG, "2 problems: ", "no layer has a gate_bias, expected at least one RAT layer",
                   'pe._name_ is "interrope", expected "rope_interrope"', family="rat-hub", head_dim=2, chunk=16)


def test_ratplus_needs_its_positions_and_gates():
    with place() as at:
        at.save(tiny_ratplus(), easydict({"model": {"backbone": {}, "embedding": {"pe": {"_name_": "empty"}}}}))
        at.refuses(WRONG, 'embedding.pe._name_ is "empty", expected "rope"', head_dim=2)
        at.save(tiny_ratplus(), easydict({"model": {"backbone": {}, "embedding": {"pe": "alibi"}}}))
        at.refuses(WRONG, 'embedding.pe is "alibi", expected "rope"', head_dim=2)
        weights = tiny_ratplus()
        weights[LAYER + "seq_layer.in_proj.weight"] = torch.zeros(16, 4)
        at.save(weights, easydict(backbone(seq_cell={"apply_re": True})))
        at.refuses(WRONG, LAYER + "seq_layer.fgate_proj.weight is missing", head_dim=2)
        at.save(tiny_ratplus(), easydict({"model": {"backbone": {}, "embedding": {"pe": {"_name_": "rope"}}}}))
        at.run(head_dim=2)


def test_a_config_that_would_not_load():
    """Numbers that fit the tensors, but that no model is loaded with."""
    config = {"model": {"backbone": {"seq_cell": {"dilation_size": 0}}, "embedding": {"pe": {"base": 0}}}}
    with place() as at:
        at.save(tiny_ratplus(), easydict(config))
        at.refuses(WRONG, "a.pt: ", "config.json to write: ", "local.dilation is 0, expected -1 for none, or 1",
                   "rope_base is 0.0, expected a number from 1", head_dim=2)


def test_the_head_must_be_the_embedding():
    weights, head = tiny_ratplus(), "head.lm_head.weight"
    with place() as at:
        weights[head] = weights[head].clone()
        at.save(weights)
        at.run(head_dim=2)  # a copy with equal bytes
        shutil.rmtree(at.out)
        weights[head][4, 1] += 1
        at.save(weights)
        at.refuses(WRONG, "head.lm_head.weight is not embedding.wte.weight: they differ at value 17: ", head_dim=2)
        at.save({**weights, head: weights["embedding.wte.weight"].half()})
        at.refuses(WRONG, "head.lm_head.weight is not embedding.wte.weight: float16 and float32", head_dim=2)
        del weights[head]
        at.save(weights)
        at.refuses(WRONG, "head.lm_head.weight is missing", head_dim=2)


def test_weights_must_be_finite_in_the_format_that_is_written():
    weights = tiny_ratplus()
    name = LAYER + "seq_layer.out_proj.weight"
    with place() as at:
        weights[name][1, 1] = float("nan")
        at.save(weights)
        at.refuses(WRONG, "a.pt: layers.0.mixer.out_proj.weight: value 5 is nan", head_dim=2)
        weights[name][1, 1] = torch.finfo(torch.float32).max
        at.save(weights)
        at.refuses(WRONG, "layers.0.mixer.out_proj.weight: value 5 is 3.40282e+38, which is too large for bf16", head_dim=2, dtype="bf16")
        at.run(head_dim=2)


def test_one_checkpoint_and_no_more():
    with place() as at:
        at.refuses("NOT_FOUND", "no checkpoint (.pt, .pth, .ckpt, .bin)")
        at.use("ratplus.pt")
        at.use("rat_swa.bin")
        at.refuses(WRONG, "2 checkpoints, expected one: rat_swa.bin, ratplus.pt")
        at.refuses("NOT_FOUND", "in/none: No such file", source=str(at.source / "none"))


def test_the_tokenizer_must_fit():
    with place() as at:
        at.use("ratplus.pt")
        tokenizer = at.source / "tokenizer.model"
        shutil.copy(ROOT / "tests" / "support" / "tiny_tokenizer.model", tokenizer)
        at.refuses(WRONG, "in/tokenizer.model: 320 pieces, vocab_size is 400")
        tokenizer.write_text("not a model")
        at.refuses(WRONG, "tokenizer.model: not a SentencePiece model")
        tokenizer.unlink()
        at.refuses("NOT_FOUND", "tokenizer.model: not there", "LLaMA")


def test_nothing_is_written_over():
    with place() as at:
        checkpoint = at.use("ratplus.pt")
        at.out.mkdir()
        at.run()  # an empty folder is free
        at.refuses("ALREADY_EXISTS", "out is there and not an empty folder")
        at.refuses("ALREADY_EXISTS", out=str(checkpoint))
        for below in ("below", "below/that"):
            at.refuses("FAILED_PRECONDITION", "cannot be made", out=str(checkpoint / below))
        at.refuses(WRONG, "has no name", out="")


def test_a_folder_that_cannot_be_replaced_is_refused_before_any_work():
    with place() as at:
        (at.root / "elsewhere").mkdir()
        at.out.symlink_to(at.root / "elsewhere")
        at.refuses("FAILED_PRECONDITION", "out cannot be replaced", source="none")


def test_a_full_disk():
    with place() as at:
        at.use("ratplus.pt")
        free, shutil.disk_usage = shutil.disk_usage, lambda path: shutil._ntuple_diskusage(0, 0, 20127)
        try:
            at.refuses("RESOURCE_EXHAUSTED", "the weights need 20128 bytes on the disk, it has 20127")
        finally:
            shutil.disk_usage = free


def test_damaged_weights_leave_nothing_behind():
    with place() as at:
        path = at.use("ratplus.pt")
        data = bytearray(path.read_bytes())
        for name, ours in (("backbone.ln.weight", "final_norm.weight"), ("embedding.wte.weight", "embedding.wte.weight")):
            at_byte = data.index(values(name, (8,)).numpy().tobytes())
            path.write_bytes(data[:at_byte] + bytes([data[at_byte] ^ 1]) + data[at_byte + 1:])
            at.refuses("DATA_LOSS", f"ratplus.pt: {ours}: its storage of ", " bytes has the checksum (CRC) ", ", expected ")


def test_an_interrupt_leaves_nothing_behind():
    class Stop(Exception):
        pass

    seen = [0]

    def progress(done, total):
        assert seen[-1] < done <= total
        seen.append(done)
        if done > total * 3 // 4:
            raise Stop

    with place() as at:
        at.use("ratplus.pt")
        try:
            at.run(progress)
        except Stop:
            assert len(seen) > 2 and at.left() == ["in"], at.left()
        else:
            raise AssertionError("went on")


def killed(at):
    at.run(lambda done, total: os._exit(9))


def test_what_a_killed_import_left_is_cleared_and_a_running_one_is_not():
    with place() as at:
        at.use("ratplus.pt")
        folders = lambda: [n for n in at.left() if ".importing-" in n]
        child = multiprocessing.get_context("fork").Process(target=killed, args=(at,))
        child.start()
        child.join()
        assert child.exitcode == 9 and len(folders()) == 1
        begun = []

        def progress(done, total):
            if not begun:
                begun.append(done)
                at.run()
                assert len(folders()) == 1, "of the import that waits for this one"

        try:
            at.run(progress)
        except Refusal as refusal:
            assert refusal.code == "FAILED_PRECONDITION" and "cannot be made" in refusal.message, refusal
        else:
            raise AssertionError("replaced a model")
        assert begun and not folders() and (at.out / "config.json").exists()
