"""The configuration that the published trainers pickle with the weights. Values may be missing; keys of old and new trainers are known."""

import dataclasses

from importer.refusal import kind, printable

LARGEST = 2**31


@dataclasses.dataclass
class Configuration:
    """What the trainer says; None where it says nothing. `present` is False where there is no `model.backbone`."""

    present: bool = False
    layers: int = None
    d: int = None
    head_dim: int = None
    heads: int = None
    ffn: int = None
    vocab_size: int = None
    context: int = None
    chunk: int = None  # of RAT and its hybrids
    shared_heads: int = None
    attention_window: int = None  # of a hybrid's attention layers
    positions: str = None  # name of the position encoding, if it is a section
    activation: str = None
    rope_base: float = None
    recurrence: bool = None
    joint_train: bool = False  # pretraining alternates dilation D and 1
    dilation: object = None  # a value for all layers, or a list with a value for each
    window: object = None
    initial: object = None


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


class Section:
    """One section of the configuration. A missing one has no keys. What is wrong is added to `problems`."""

    def __init__(self, values, path, problems):
        self.values = values if isinstance(values, dict) else None
        self.path, self.problems = path, problems

    def inner(self, key):
        return Section((self.values or {}).get(key), f"{self.path}.{key}", self.problems)

    def find(self, keys, accept, expected):
        """The first of `keys` (the current name, then older ones) that is there; None where none is or its value is not accepted."""
        for key in keys:
            value = (self.values or {}).get(key)
            if value is None:
                continue
            if accept(value):
                return value
            shown = value if is_int(value) and abs(value) < 2**63 else kind(value)
            self.problems.append(f"{self.path}.{key} is {shown}, expected {expected}")
            return None
        return None

    def integer(self, *keys):
        return self.find(keys, lambda v: is_int(v) and 1 <= v <= LARGEST, "an int of 1 or above")

    def flag(self, *keys):
        return self.find(keys, lambda v: isinstance(v, bool), "a bool")

    def number(self, *keys):
        value = self.find(keys, lambda v: (is_int(v) and abs(v) < 2**63) or isinstance(v, float), "a number")
        return None if value is None else float(value)

    def integers(self, keys, low):
        def accept(value):
            entries = value if isinstance(value, (list, tuple)) else [value]
            return all(is_int(entry) and low <= entry <= LARGEST for entry in entries)

        value = self.find(keys, accept, f"an int of {low} or above, or a list of them, one a layer")
        return list(value) if isinstance(value, tuple) else value

    def text(self, key):
        value = (self.values or {}).get(key)
        return value if isinstance(value, str) else None

    # Properties that can have one value only.

    def expect_text(self, key, expected):
        text = self.text(key)
        if text is not None and text != expected:
            self.problems.append(f'{self.path}.{key} is "{printable(text)}", expected "{expected}"')

    def expect_flag(self, key, expected):
        flag = self.flag(key)
        if flag is not None and flag != expected:
            self.problems.append(f"{self.path}.{key} is {str(flag).lower()}, expected {str(expected).lower()}")


def read(values, problems):
    """The Configuration in `values`, which may be None. Values of a wrong type, or of a kind of model that is not supported (biases,
    other norms, other activations), are added to `problems`."""
    root = Section(values, "config", problems)
    backbone = root.inner("model").inner("backbone")
    if backbone.values is None:
        return Configuration()
    result = Configuration(present=True, layers=backbone.integer("num_layers"), d=backbone.integer("d_model"))
    backbone.expect_text("ln", "rmsnorm")
    backbone.expect_flag("bias", False)

    mixer = backbone.inner("seq_cell")
    result.head_dim, result.heads = mixer.integer("d_head"), mixer.integer("num_head")
    result.dilation = mixer.integers(("dilation_size", "chunk_size1"), -1)
    result.window = mixer.integers(("local_size",), 0)
    result.initial = mixer.integers(("initial_size", "prefix_size"), 0)
    # A hybrid's seq_cell is its attention, seq_cell1 its RAT.
    second = backbone.inner("seq_cell1")
    rat = mixer if second.values is None else second
    result.chunk, result.shared_heads = rat.integer("chunk_size"), rat.integer("ngroups")
    result.attention_window = mixer.integer("window_size")
    result.recurrence = mixer.flag("apply_re")
    result.joint_train = bool(mixer.flag("joint_train", "mix_train"))

    ffn = backbone.inner("hidden_cell")
    result.ffn = ffn.integer("d_ffn")
    ffn.expect_text("act_fn", "gelu")
    result.activation = ffn.text("act_fn")

    # Positions are one word, or a section with that word's parameters.
    embedding = root.inner("model").inner("embedding")
    embedding.expect_text("pe", "rope")
    positions = embedding.inner("pe")
    result.positions, result.rope_base = positions.text("_name_"), positions.number("base")
    data = root.inner("data")
    result.context = data.integer("seq_len") or positions.integer("max_seq_len")
    result.vocab_size = data.integer("vocab_size")
    root.inner("task").expect_flag("tie_embedding", True)
    return result
