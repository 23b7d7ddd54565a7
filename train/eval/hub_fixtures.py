"""Checkpoints in the published RAT+ and RAT layout with weights by a formula, for the checks of the importer.

    PYTHONPATH=train python -m eval.hub_fixtures tests/golden/hub           # the small ones
    PYTHONPATH=train python -m eval.hub_fixtures --full /tmp/full.pt        # the shapes of the 1.5B model, random fp32, 6 GB

Beside `rat_swa.pt` it writes what the oracle computes with that checkpoint: `rat_swa.json` and `rat_swa.safetensors`.

Needs `easydict` besides torch: the published configurations are pickled objects of it. The formula is exact in fp32, so that a check
knows every value without storing it.
"""

import argparse
import json
import os
import tempfile

import numpy as np
import torch
from easydict import EasyDict
from safetensors.torch import save_file
from sentencepiece import SentencePieceProcessor

from families import build
from importer.testing import values

VOCAB, D, HEAD_DIM, LAYERS = 400, 8, 2, 2  # VOCAB: of tests/support/llama_tokenizer.model


def state_dict(mixer, d=D, layers=LAYERS, vocab=VOCAB, make=values):
    """Name -> tensor; `mixer(layer)` gives the shapes of a layer's `seq_layer` beyond norm and out_proj."""
    shapes = {"embedding.wte.weight": (vocab, d)}
    for i in range(layers):
        layer = f"backbone.layers.{i}."
        shapes[layer + "seq_layer.input_norm.weight"] = (d,)
        for name, shape in mixer(i).items():
            shapes[f"{layer}seq_layer.{name}"] = shape
        shapes[layer + "seq_layer.out_proj.weight"] = (d, d)
        shapes[layer + "hidden_layer.ln.weight"] = (d,)
        shapes[layer + "hidden_layer.fc1.weight"] = (4 * d, d)
        shapes[layer + "hidden_layer.fc2.weight"] = (d, 4 * d)
    shapes["backbone.ln.weight"] = (d,)
    state = {name: make(name, shape) for name, shape in shapes.items()}
    state["head.lm_head.weight"] = state["embedding.wte.weight"]
    return state


def config(seq_cell, d=D, head_dim=HEAD_DIM, layers=LAYERS, vocab=VOCAB, seq_len=4096, pe="rope", rat_cell=None):
    """`rat_cell`: of a hybrid, whose `seq_cell` is its attention."""
    heads = dict(d_head=head_dim, num_head=d // head_dim)
    hybrid = {} if rat_cell is None else dict(interleave_step=2, seq_cell1=dict(heads, **rat_cell))
    return EasyDict(
        model=dict(
            backbone=dict(num_layers=layers, d_model=d, ln="rmsnorm", bias=False, dropout=0.0, init=0.02,
                          seq_cell=dict(heads, **seq_cell), hidden_cell=dict(d_ffn=4 * d, act_fn="gelu"), **hybrid),
            embedding=dict(pe=pe)),
        task=dict(tie_embedding=True, ignore_index=-100),
        data=dict(seq_len=seq_len, vocab_size=vocab, ignore_input_index=2, num_bytes=2),
        optim=dict(adamw=dict(lr=8e-4, weight_decay=0.1, betas=(0.9, 0.95))),
        trainer=dict(dtype="bfloat16", pretrained_path=None))


def training_state(parameter):
    """What a trainer saves beside the weights: an optimizer that has stepped once, and a schedule."""
    parameter = torch.nn.Parameter(parameter.clone())
    optimizer = torch.optim.AdamW([parameter], lr=8e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    schedule.step()
    return {"optimizer": optimizer.state_dict(), "lr_scheduler": schedule.state_dict(), "resume_kwargs": {"epoch": 0}}


def write_small(out):
    def save(name, content):
        torch.save(content, os.path.join(out, name))

    # As the current trainer leaves it, pretraining with D = 64 and 1 in turn; compiled, so names are wrapped.
    whole = state_dict(lambda i: {"in_proj.weight": (5 * D, D)})
    wrapped = {n.replace("backbone.", "backbone._orig_mod.", 1): t for n, t in whole.items()}
    cell = dict(dilation_size=64, local_size=0, initial_size=0, apply_re=True, joint_train=True)
    save("ratplus.pt", {"task": wrapped, "config": config(cell), "step": 52452,
                        **training_state(whole["backbone.ln.weight"])})

    # Older: gates in a tensor of their own, older key names, one value a layer; weights only, the head a copy.
    older = state_dict(lambda i: {"in_proj.weight": (4 * D, D), "fgate_proj.weight": (D, D)})
    older["head.lm_head.weight"] = older["head.lm_head.weight"].clone()
    cell = dict(chunk_size=1, chunk_size1=[16, -1], local_size=[0, 1024], prefix_size=4, mix_train=False)
    save("ratplus_older_wonly.pth", {"task": older, "config": config(cell, seq_len=2048), "step": 476})

    # The attention-only baseline: no gates. bf16, one storage for all, as a sharded trainer may gather it.
    dense = state_dict(lambda i: {"in_proj.weight": (4 * D, D)})
    flat = torch.cat([t.flatten() for n, t in dense.items() if n != "head.lm_head.weight"]).bfloat16()
    views, at = {}, 0
    for name, tensor in dense.items():
        if name == "head.lm_head.weight":
            views[name] = views["embedding.wte.weight"]
            continue
        views[name] = flat[at:at + tensor.numel()].view(tensor.shape)
        at += tensor.numel()
    cell = dict(dilation_size=1, local_size=0, initial_size=4, apply_re=False, joint_train=False)
    save("dense.pt", {"task": views, "config": config(cell)})

    rat = {"in_proj.weight": (3 * D + 2 * 2 * HEAD_DIM, D), "gate_bias": (D,)}
    pe = dict(_name_="interrope", max_num_chunk=256, chunk_size=16, base=10000)
    save("rat.pt", {"task": state_dict(lambda i: rat), "config": config(dict(chunk_size=16, ngroups=2), pe=pe), "step": 7})

    # The hybrid: every other layer local attention.
    def hybrid(i):
        return rat if i % 2 == 0 else {"in_proj.weight": (3 * D, D)}

    pe = dict(_name_="rope_interrope", max_seq_len=4096, max_num_chunk=1024, chunk_size=4, base=10000)
    cells = config(dict(window_size=5), layers=4, pe=pe, rat_cell=dict(chunk_size=4))
    save("rat_swa.pt", {"task": state_dict(hybrid, layers=4), "config": cells, "step": 7})
    write_oracle(os.path.join(out, "rat_swa"), state_dict(hybrid, layers=4))

    # Weights alone, in half precision, no configuration.
    save("rat_swa.bin", state_dict(hybrid, make=lambda n, s: values(n, s, coarse=True).half()))


OUR_NAMES = {
    "seq_layer.input_norm": "mixer_norm", "seq_layer.in_proj": "mixer.in_proj", "seq_layer.gate_bias": "mixer.gate_bias",
    "seq_layer.out_proj": "mixer.out_proj", "hidden_layer.ln": "ffn_norm", "hidden_layer.fc1": "ffn.in_proj",
    "hidden_layer.fc2": "ffn.out_proj", "backbone.ln": "final_norm", "embedding.wte": "embed",
}


def our_tensors(state):
    """A published state under the names and with the rows of docs/model-format.md."""
    tensors = {}
    for name, x in state.items():
        if name == "head.lm_head.weight":
            continue
        if x.shape[0] == 3 * D:  # attention, published as v, q, k
            x = x.roll(-D, 0)
        for published, ours in OUR_NAMES.items():
            name = name.replace(published, ours)
        tensors[name.removeprefix("backbone.")] = x
    return tensors


def write_oracle(path, state):
    """The text and ids of a prompt, the ids that greedy generation puts after it, and the logits of the last rows."""
    mixers = [{"kind": "rat", "chunk": 4, "shared_heads": 2, "positions": "rope"},
              {"kind": "attention", "window": 5, "positions": "rope"}]
    model = build({"architecture": "rat-swa", "vocab_size": VOCAB, "d": D, "heads": D // HEAD_DIM, "head_dim": HEAD_DIM,
                   "ffn": 4 * D, "ffn_kind": "gelu", "layers": 4, "mixers": mixers, "rope_base": 10000.0,
                   "rope_pairs": "half", "norm_eps": 1e-6}, our_tensors(state))
    tokenizer = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "support", "llama_tokenizer.model")
    prompt = "The whale swam under a grey ship and nobody saw it but the old man at the wheel, who said no word."
    ids = SentencePieceProcessor(model_file=tokenizer).encode(prompt)
    count = len(ids)
    for _ in range(20):
        best = model.forward(ids)[-1, 1:].topk(2)  # the unknown symbol is never drawn
        assert best.values[0] - best.values[1] > 1e-4, "nearly tied"
        ids.append(best.indices[0].item() + 1)
    with open(path + ".json", "w") as f:
        json.dump({"prompt": prompt, "ids": ids[:count], "generated": ids[count:]}, f)
        f.write("\n")
    save_file({"logits": model.forward(ids)[-8:].contiguous()}, path + ".safetensors")


def write_full(path):
    """Tensors live in files that are mapped, so that memory stays small."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    d, layers, vocab = 2048, 24, 32000
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        def make(name, shape):
            file = os.path.join(folder, name)
            return torch.from_file(file, shared=True, size=int(np.prod(shape))).normal_(0, 0.02).view(shape)

        state = state_dict(lambda i: {"in_proj.weight": (5 * d, d)}, d, layers, vocab, make)
        cell = dict(dilation_size=16, local_size=256, initial_size=4, apply_re=True, joint_train=False)
        torch.save({"task": state, "config": config(cell, d, 128, layers, vocab), "step": 476}, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    write_full(args.out) if args.full else write_small(args.out)


if __name__ == "__main__":
    main()
