"""Writes chat_cases.json: conversations, the text that jinja2 renders of them with each of chat_templates/*.jinja, and its ids by the
PyPI package `tokenizers`, with the vocabulary of tests/support/tiny_bpe_tokenizer.json and the templates' control tokens after it.

    python tests/model/text/make_chat_cases.py > tests/model/text/chat_cases.json
"""

import json
import pathlib
import sys

import jinja2
import jinja2.sandbox
from tokenizers import AddedToken, Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# As ChatTemplateTest has them; the ids go on after the vocabulary's.
CONTROLS = ["<s>", "</s>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|end_of_text|>", "<start_of_turn>", "<end_of_turn>"]
TURNS = [
    [("user", "Hello")],
    [("system", "You are terse."), ("user", "How many whales?\nAnd  why? "), ("assistant", "Three, it's said."), ("user", "  12345 \n")],
    [("user", "a"), ("assistant", "'s b\n\n"), ("user", "\n\nc d\u00e9j\u00e0 \U0001F40B"), ("assistant", ""), ("user", "we're")],
    [("user", "one"), ("user", "two"), ("assistant", "three"), ("assistant", "four"), ("user", "five")],
]


def refuse(message):
    raise jinja2.TemplateError(message)


def main():
    tokenizer = Tokenizer.from_file(str(ROOT / "tests/support/tiny_bpe_tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in CONTROLS])
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    cases = []
    for path in sorted((HERE / "chat_templates").glob("*.jinja")):
        template = environment.from_string(path.read_text(encoding="utf-8"))
        for turns in TURNS:
            messages = [{"role": role, "content": content} for role, content in turns]
            case = {"template": path.stem, "messages": messages}
            try:
                text = template.render(messages=messages, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")
                case |= {"text": text, "ids": tokenizer.encode(text).ids}
            except jinja2.TemplateError:
                case["refused"] = True
            cases.append(case)
    json.dump(cases, sys.stdout, ensure_ascii=False, indent=0)
    print()


if __name__ == "__main__":
    main()
