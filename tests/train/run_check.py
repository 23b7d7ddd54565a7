"""Runs a check of train/, `run_check.py TRAIN FILE`, or ends with 77, which ctest calls skipped, where its packages are missing."""
import importlib.util
import pathlib
import runpy
import sys

packages = ("torch", "numpy", "safetensors", "sentencepiece", "tokenizers", "gguf", "tqdm")
missing = [name for name in packages if importlib.util.find_spec(name) is None]
if missing:
    print(f"NOT TESTED: {sys.executable} has no {', '.join(missing)}")
    sys.exit(77)
train = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(train))
runpy.run_path(str(train / sys.argv[2]), run_name="__main__")
