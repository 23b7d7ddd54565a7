"""Runs one of train/test_*.py, or ends with 77, which ctest calls skipped, where its packages are missing."""
import importlib.util
import runpy
import sys

missing = [name for name in ("torch", "numpy", "safetensors", "sentencepiece") if importlib.util.find_spec(name) is None]
if missing:
    print(f"NOT TESTED: {sys.executable} has no {', '.join(missing)}")
    sys.exit(77)
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
runpy.run_path(sys.argv[1], run_name="__main__")
