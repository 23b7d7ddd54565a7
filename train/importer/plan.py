"""Plans the tensors and config.json of a model directory from the names and shapes of a published checkpoint. Reads no weights and
writes nothing. docs/model-format.md specifies the result: "Imported families" and, for RAT, "Other families".
"""

import dataclasses
import math

import torch

from importer import published
from importer.refusal import Refusal, printable
from importer.weights import MAX_LAYERS, StateDict

# What every published model has; none of it is in their configurations.
UNK_ID, EOS_ID, NORM_EPS = 0, 2, 1e-6
# What every published model has, where the checkpoint has no configuration.
HEAD_DIM, CONTEXT, ROPE_BASE, HYBRID_WINDOW = 128, 4096, 10000.0, 1024
# What a model directory may hold: kMaxSize and kMaxLayers of model/config/config_fields.h, and the bounds of the RoPE base.
MAX_SIZE, ROPE_BASES = 2**24, (1.0, 1e12)
# Problems in a message: one tensor's name with a large number makes each layer before it missing.
MAX_SHOWN = 50

EMBEDDING, HEAD = "embedding.wte.weight", "head.lm_head.weight"


@dataclasses.dataclass
class Output:
    """A tensor to write: the rows of its parts, one part after the other, then `zeros` zeros."""

    name: str
    shape: tuple
    parts: list
    zeros: int = 0


@dataclasses.dataclass
class Plan:
    config: dict = dataclasses.field(default_factory=dict)
    tensors: list = dataclasses.field(default_factory=list)
    # The embedding and the output head in the checkpoint, which must have the same bytes.
    embedding: torch.Tensor = None
    head: torch.Tensor = None
    assumptions: list = dataclasses.field(default_factory=list)  # values that neither configuration nor shapes give
    step: int = None  # of the trainer

    def parameters(self):
        return sum(math.prod(tensor.shape) for tensor in self.tensors)


def plan(root, family, head_dim=None, chunk=None):
    """The Plan of a checkpoint's values. `family` is "ratplus-hub" or "rat-hub"; `head_dim` and, for RAT, `chunk` are used if the
    checkpoint has no configuration, and are an error if its configuration differs. INVALID_ARGUMENT lists all problems at once."""
    return Planner(root, family, head_dim, chunk).run()


class Planner:
    def __init__(self, root, family, head_dim, chunk):
        self.ratplus, self.head_dim_option, self.chunk_option = family == "ratplus-hub", head_dim, chunk
        self.problems, self.plan = [], Plan()
        self.weights = StateDict(root, self.problems)
        values = root if isinstance(root, dict) else {}
        self.said = published.read(values.get("config"), self.problems)
        if published.is_int(values.get("step")):
            self.plan.step = values["step"]
        self.recurrence = True  # RAT+
        self.query_rows = 0  # RAT: of the shared queries, as many as of the keys
        self.is_attention = []  # RAT, by layer: local attention or RAT

    def run(self):
        if not self.said.present:
            self.assume("the checkpoint has no configuration; sizes come from the shapes")
        if self.read_sizes():
            self.take_outer()
            for layer in range(self.layers):
                self.take_layer(layer)
            self.copy("backbone.ln.weight", "final_norm.weight", (self.d,))
            self.weights.report_left_over()
            self.write_ratplus() if self.ratplus else self.write_rat()
        if not self.problems:
            self.check_config()
        if not self.problems:
            return self.plan
        shown = "; ".join(self.problems[:MAX_SHOWN]) + ("; and so on" if len(self.problems) > MAX_SHOWN else "")
        raise Refusal("INVALID_ARGUMENT", f"{len(self.problems)} problem{'s' if len(self.problems) > 1 else ''}: {shown}")

    def problem(self, text):
        self.problems.append(text)

    def assume(self, text):
        self.plan.assumptions.append(text)

    def compare(self, what, said, found):
        """What the configuration says must be what the shapes say."""
        if said is not None and said != found:
            self.problem(f"{what} is {said} in the configuration, {found} in the shapes")

    def choose(self, what, said, option, otherwise):
        """What the configuration, or else an option, or else every published model says."""
        if said is not None and option is not None and said != option:
            self.problem(f"{what} is {said} in the configuration, {option} by option")
        for value in (said, option):
            if value is not None:
                return value
        self.assume(f"{what} {otherwise}")
        return otherwise

    # -- Sizes and tensors

    def read_sizes(self):
        """False when the sizes make no model; then there is nothing to compare tensors with."""
        extent, said = self.weights.extent, self.said
        # Any of several tensors can tell a size, so that one that is missing does not hide the others.
        self.vocab = extent(EMBEDDING, 0, extent(HEAD, 0, said.vocab_size))
        self.d = extent("backbone.ln.weight", 0, extent(EMBEDDING, 1, said.d))
        self.ffn = extent("backbone.layers.0.hidden_layer.fc1.weight", 0, said.ffn)
        self.layers = self.weights.count_layers("backbone.layers.") if said.layers is None else said.layers
        self.head_dim = self.choose("head_dim", said.head_dim, self.head_dim_option, HEAD_DIM)
        sizes = [self.d or 0, self.vocab or 0, self.ffn or 0]
        if not 1 <= self.layers <= MAX_LAYERS or sizes[0] < 1 or max(sizes) > MAX_SIZE:
            self.problem(f"no model of these sizes: {self.layers} layers (backbone.layers.*), width {sizes[0]} (backbone.ln.weight), "
                         f"vocabulary {sizes[1]} ({EMBEDDING}), ffn {sizes[2]}")
            return False
        if self.head_dim < 1 or self.head_dim % 2 or self.d % self.head_dim:
            self.problem(f"head_dim is {self.head_dim}, expected an even divisor of the width {self.d}; "
                         "name the right one with --head-dim")
            self.head_dim = self.d  # some divisor, so that the rest can be looked at
        else:
            self.compare("num_head", said.heads, self.d // self.head_dim)
        self.compare("d_model", said.d, self.d)
        self.compare("d_ffn", said.ffn, self.ffn)
        self.compare("vocab_size", said.vocab_size, self.vocab)
        return True

    def copy(self, published_name, name, shape):
        self.plan.tensors.append(Output(name, shape, [self.weights.take(published_name, shape)]))

    def take_outer(self):
        shape = (self.vocab, self.d)
        self.plan.embedding, self.plan.head = self.weights.take(EMBEDDING, shape), self.weights.take(HEAD, shape)
        self.plan.tensors.append(Output("embed.weight", shape, [self.plan.embedding]))

    def take_layer(self, layer):
        inner, out, d, ffn = f"backbone.layers.{layer}.", f"layers.{layer}.", self.d, self.ffn
        self.copy(inner + "seq_layer.input_norm.weight", out + "mixer_norm.weight", (d,))
        if self.ratplus:
            self.take_ratplus_mixer(layer, inner + "seq_layer.", out + "mixer.")
        else:
            self.take_rat_mixer(inner + "seq_layer.", out + "mixer.")
        self.copy(inner + "seq_layer.out_proj.weight", out + "mixer.out_proj.weight", (d, d))
        self.copy(inner + "hidden_layer.ln.weight", out + "ffn_norm.weight", (d,))
        self.copy(inner + "hidden_layer.fc1.weight", out + "ffn.in_proj.weight", (ffn, d))
        self.copy(inner + "hidden_layer.fc2.weight", out + "ffn.out_proj.weight", (d, ffn))

    def take_ratplus_mixer(self, layer, inner, out):
        """Rows o, q, k, v, g. Older checkpoints keep g in a tensor of its own; a model without recurrence has none, and gets rows of
        zeros that are never read."""
        name, d = inner + "in_proj.weight", self.d
        separate = inner + "fgate_proj.weight" in self.weights.tensors
        four = self.weights.extent(name, 0, 0) == 4 * d
        recurrence = self.said.recurrence if self.said.recurrence is not None else separate or not four
        if layer == 0:
            self.recurrence = recurrence
        if recurrence != self.recurrence:
            self.problem(f"{inner}: gates in some layers only")
        whole = recurrence and not separate and not four
        tensor = Output(out + "in_proj.weight", (5 * d, d), [self.weights.take(name, ((5 if whole else 4) * d, d))])
        if recurrence and not whole:
            tensor.parts.append(self.weights.take(inner + "fgate_proj.weight", (d, d)))
        elif not recurrence:
            tensor.zeros = d * d
        self.plan.tensors.append(tensor)

    def take_rat_mixer(self, inner, out):
        """Rows z, v, g, q, k, as published. A layer of local attention has no gate; its rows are published as v, q, k and written as
        q, k, v."""
        name, d = inner + "in_proj.weight", self.d
        rows = self.weights.extent(name, 0, 0)
        attention = rows == 3 * d and inner + "gate_bias" not in self.weights.tensors
        self.is_attention.append(attention)
        if attention:
            rows_vqk = self.weights.take(name, (rows, d))
            parts = [] if rows_vqk is None else [rows_vqk[d:2 * d], rows_vqk[2 * d:], rows_vqk[:d]]
            self.plan.tensors.append(Output(out + "in_proj.weight", (rows, d), parts))
            return
        if self.query_rows == 0:
            self.query_rows = (rows - 3 * d) // 2
        if self.query_rows <= 0 or self.query_rows % self.head_dim or d % self.query_rows:
            self.problem(f"{name} has {rows} rows, expected 3 * {d} + 2 * groups * head_dim {self.head_dim}")
            self.query_rows = 0
            self.weights.take(name, (None, d))
        else:
            self.copy(name, out + "in_proj.weight", (3 * d + 2 * self.query_rows, d))
        self.copy(inner + "gate_bias", out + "gate_bias", (d,))

    # -- config.json

    def write_sizes(self, architecture):
        self.plan.config.update({
            "format_version": 1, "architecture": architecture, "vocab_size": self.vocab, "unk_id": UNK_ID, "eos_id": EOS_ID, "d": self.d,
            "heads": self.d // self.head_dim, "head_dim": self.head_dim, "ffn": self.ffn, "layers": self.layers,
            "context": self.choose("context", self.said.context, None, CONTEXT),
            "rope_base": ROPE_BASE if self.said.rope_base is None else self.said.rope_base, "norm_eps": NORM_EPS})
        if self.said.rope_base is None:
            self.assume("rope_base 10000")

    def pattern(self, what, said, otherwise):
        if said is None:
            self.assume(f"local.{what} {otherwise}")
            return otherwise
        if isinstance(said, list) and len(said) != self.layers:
            self.problem(f"the configuration has {len(said)} values of {what}, expected one or {self.layers}")
        return said

    def write_ratplus(self):
        self.write_sizes("ratplus")
        self.check_positions("rope")
        said = self.said
        if said.recurrence is None:
            self.assume("recurrence true: there are gates" if self.recurrence else "recurrence false: there are no gates")
        self.plan.config["recurrence"] = self.recurrence
        self.plan.config["local"] = {"window": self.pattern("window", said.window, 0),
                                     "dilation": self.pattern("dilation", said.dilation, 1),
                                     "initial": self.pattern("initial", said.initial, 0)}
        adapted = {1} if said.dilation is None else set(said.dilation if isinstance(said.dilation, list) else [said.dilation])
        adapted -= {-1}  # off
        if said.joint_train:
            adapted.add(1)
        self.plan.config["adapted_dilations"] = sorted(adapted)

    def check_positions(self, expected):
        """The mixers know one encoding each: RAT RoPE at the chunk's index, RAT+ and attention RoPE at the token's. Others were trained
        with, "empty" among them, which is none."""
        name = self.said.positions
        if name is None or name == expected or (name, expected) == ("rope_interrope", "interrope"):
            return
        self.problem(f'config.model.embedding.pe._name_ is "{printable(name)}", expected "{expected}"')

    def write_rat(self):
        said, hybrid = self.said, any(self.is_attention)
        if all(self.is_attention):
            self.problem("no layer has a gate_bias, expected at least one RAT layer")
        self.write_sizes("rat-swa" if hybrid else "rat")
        self.assume(f"norm_eps {NORM_EPS}")
        if said.activation is None:
            self.assume("ffn_kind gelu")
        self.assume("rope_pairs half")
        self.plan.config.update({"ffn_kind": "gelu", "rope_pairs": "half"})
        if said.positions is None:
            self.assume("positions rope")
        self.check_positions("rope_interrope" if hybrid else "interrope")
        shared_heads, chunk = self.query_rows // self.head_dim, None
        if shared_heads > 0:
            self.compare("ngroups", said.shared_heads, shared_heads)
        if said.chunk is None and self.chunk_option is None:
            self.problem("neither configuration nor shapes tell the chunk length; name it with --chunk")
        else:
            chunk = self.choose("chunk", said.chunk, self.chunk_option, None)
        rat = {"kind": "rat", "chunk": chunk, "shared_heads": shared_heads, "positions": "rope"}
        window = self.choose("window", said.attention_window, None, HYBRID_WINDOW) if hybrid else None
        attention = {"kind": "attention", "window": window, "positions": "rope"}
        # Layer i takes mixers[i mod n], with the smallest n that gives every layer its kind.
        kinds = self.is_attention
        period = next(n for n in range(1, len(kinds) + 1) if kinds[n:] == kinds[:len(kinds) - n])
        self.plan.config["mixers"] = [dict(attention if kind else rat) for kind in kinds[:period]]

    def check_config(self):
        """What is written must be what the service reads; its bounds are those of model/config."""
        config, said = self.plan.config, []
        for key, low, high in (("vocab_size", EOS_ID + 1, MAX_SIZE), ("heads", 1, MAX_LAYERS), ("head_dim", 2, MAX_LAYERS), ("ffn", 1, MAX_SIZE),
                               ("rope_base", *ROPE_BASES)):
            if not low <= config[key] <= high:
                said.append(f"{key} is {config[key]}, expected a number from {low} to {high}")
        dilation = config.get("local", {}).get("dilation", 1)
        for layer, value in enumerate(dilation if isinstance(dilation, list) else [dilation]):
            if value == 0:
                where = f" in layer {layer}" if isinstance(dilation, list) else ""
                said.append(f"local.dilation is 0, expected -1 for none, or 1 or above{where}")
        if said:
            self.problem("config.json to write: " + "; ".join(said))


def first_difference(a, b):
    """The index of the first value whose bytes differ; None when all are equal."""
    for begin in range(0, a.numel(), 1 << 22):
        left, right = (x.reshape(-1)[begin:begin + (1 << 22)].view(torch.uint8) for x in (a, b))
        if not torch.equal(left, right):
            return begin + int((left != right).nonzero()[0]) // a.element_size()
    return None


def check_head(embedding, head):
    """The output head must be the embedding: the same view, or a copy with the same bytes."""
    what = f"{HEAD} is not {EMBEDDING}"
    if embedding.dtype != head.dtype:
        raise Refusal("INVALID_ARGUMENT", f"{what}: {head.dtype} and {embedding.dtype}".replace("torch.", ""))
    if embedding.data_ptr() != head.data_ptr():
        index = first_difference(embedding, head)
        if index is not None:
            values = (x.reshape(-1)[index].item() for x in (head, embedding))
            raise Refusal("INVALID_ARGUMENT", f"{what}: they differ at value {index}: {' and '.join(f'{v:g}' for v in values)}")
