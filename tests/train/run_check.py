"""Runs the functions test_* of a file of train/, `run_check.py TRAIN FILE`, or ends with 77, which ctest calls skipped, where its packages are missing."""
import importlib.util
import pathlib
import sys

packages = ("torch", "numpy", "safetensors", "sentencepiece", "tokenizers", "gguf", "tqdm")
missing = [name for name in packages if importlib.util.find_spec(name) is None]
if missing:
    print(f"NOT TESTED: {sys.executable} has no {', '.join(missing)}")
    sys.exit(77)
train = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(train))
import torch  # noqa: E402

torch.set_num_threads(1)  # the tensors are tiny
spec = importlib.util.spec_from_file_location("check", train / sys.argv[2])
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)
for name, test in vars(check).copy().items():
    if name.startswith("test_"):
        test()
        print("ok", name, flush=True)
