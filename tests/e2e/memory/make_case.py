"""Writes what the PyTorch oracle answers into case.json, whose document and question stay: to be run when the shipped memory has other weights.

    PYTHONPATH=train python tests/e2e/memory/make_case.py BASE.gguf
"""
import json
import pathlib
import sys

import torch
from memory.base import Base
from memory.export import load
from memory.oracle import Oracle

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = 32

torch.set_num_threads(2)
path = HERE / "case.json"
case = json.loads(path.read_text())
base = Base.load(sys.argv[1])
oracle = Oracle(base, load(HERE.parents[2] / "models" / "smollm2-memory", base))
prompt = base.chat(case["question"])
for name, blocks in (("answer", oracle.read(base.encode(case["text"]))), ("base_answer", None)):
    case[name] = base.decode(oracle.answer(prompt, TOKENS, blocks)[0])
case["torch"] = torch.__version__.split("+")[0]
path.write_text(json.dumps(case, ensure_ascii=False) + "\n")
print(json.dumps({name: case[name] for name in ("question", "answer", "base_answer")}, indent=2))
