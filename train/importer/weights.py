"""The weights of a checkpoint by name, and a record of which were asked for and of what is wrong with them."""

import torch

from importer.refusal import kind, printable

MAX_LAYERS = 4096
MAX_NAME = 512  # characters; the longest published names have some fifty
# Entries of a dict that is not one of weights; a file of some megabytes can hold a million.
MAX_PROBLEMS = 1000
WEIGHTS = {torch.float32, torch.bfloat16, torch.float16}


def shape_text(shape):
    return "[" + ", ".join("*" if extent is None else str(extent) for extent in shape) + "]"


class StateDict:
    """Uses the dict under "task", or the file's own dict if that holds the weights. The prefix that a wrapper adds to names
    ("_orig_mod.") is removed. Every problem is added to `problems`."""

    def __init__(self, root, problems):
        self.problems, self.tensors, self.taken = problems, {}, set()
        under_task = isinstance(root, dict) and "task" in root
        values = root["task"] if under_task else root
        if isinstance(values, dict):
            self._collect(values)
        else:
            where = ' under "task"' if under_task else ""
            problems.append(f'the file holds {kind(values)}{where}, expected a dict of weights, or one under "task"')

    def _collect(self, values):
        for key, value in values.items():
            if len(self.problems) >= MAX_PROBLEMS:
                self.problems.append("and so on")
                return
            if isinstance(key, str) and len(key) > MAX_NAME:
                self.problems.append(f"a name of {len(key)} characters, expected at most {MAX_NAME}")
                continue
            name = printable(key.replace("_orig_mod.", "")) if isinstance(key, str) else f"({kind(key)} as a name)"
            if not isinstance(key, str) or not isinstance(value, torch.Tensor):
                self.problems.append(f"{name} is {kind(value)}, expected a tensor")
            elif name in self.tensors:
                self.problems.append(f"{name} appears twice")
            else:
                self.tensors[name] = value

    def extent(self, name, axis, otherwise):
        """Extent `axis` of the tensor, or `otherwise` if there is no such tensor or axis."""
        tensor = self.tensors.get(name)
        return otherwise if tensor is None or axis >= tensor.dim() else tensor.shape[axis]

    def take(self, name, shape):
        """The tensor, of this shape, where None allows any extent. If it is missing, misshapen, of a type that is no weight, or not
        laid out row by row, adds a problem and returns None."""
        tensor = self.tensors.get(name)
        if tensor is None:
            self.problems.append(f"{name} is missing, expected shape {shape_text(shape)}")
            return None
        self.taken.add(name)
        before = len(self.problems)
        if tensor.layout != torch.strided or tensor.device.type != "cpu":
            self.problems.append(f"{name} is {tensor.layout} on {tensor.device}, expected a dense tensor with its data")
        elif len(shape) != tensor.dim() or any(want not in (None, have) for want, have in zip(shape, tensor.shape)):
            self.problems.append(f"{name} has shape {shape_text(tensor.shape)}, expected {shape_text(shape)}")
        elif not tensor.is_contiguous():
            self.problems.append(f"{name} is not contiguous: strides {shape_text(tensor.stride())}")
        if tensor.dtype not in WEIGHTS:
            self.problems.append(f"{name} is {str(tensor.dtype).removeprefix('torch.')}, expected float32, bfloat16 or float16")
        return tensor.detach() if len(self.problems) == before else None

    def report_left_over(self):
        for name in sorted(self.tensors.keys() - self.taken):
            self.problems.append(f"{name} {shape_text(self.tensors[name].shape)} is left over")

    def count_layers(self, prefix):
        """One more than the largest i in a name that begins with `prefix` and "i."; a number out of range is no layer, and its
        tensor is left over."""
        numbers = [name[len(prefix):].split(".")[0] for name in self.tensors if name.startswith(prefix)]
        layers = [int(n) for n in numbers if n.isascii() and n.isdigit() and len(n) <= 4]
        return max((n + 1 for n in layers if n < MAX_LAYERS), default=0)
