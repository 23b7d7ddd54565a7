"""Runs niah from a checkout: python3 bench/niah --help."""
import pathlib
import sys

# The folder around this one instead of this one: no module of niah takes the place of one of Python's.
sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])
from niah import command  # noqa: E402

sys.exit(command.main())
