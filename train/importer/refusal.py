"""The one error of an import: what is wrong, and a code that a script can act on."""

import contextlib

# Exit codes by code, those of `recollect --help`.
EXIT_CODES = {"NOT_FOUND": 3, "INVALID_ARGUMENT": 4, "CANCELLED": 6, "ALREADY_EXISTS": 7, "FAILED_PRECONDITION": 7,
              "RESOURCE_EXHAUSTED": 8, "DATA_LOSS": 9}


class Refusal(Exception):
    def __init__(self, code, message):
        assert code in EXIT_CODES, code
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


@contextlib.contextmanager
def naming(context):
    """A refusal that is raised within names `context` first."""
    try:
        yield
    except Refusal as refusal:
        raise Refusal(refusal.code, f"{context}: {refusal.message}") from None


def printable(text):
    """Text of a file, made safe for a message: at most 200 characters, and escapes for what a terminal would act on."""
    return text[:200].encode("unicode_escape").decode()


def kind(value):
    """What a value of a checkpoint is, for a message."""
    names = {type(None): "None", bool: "a bool", int: "an int", float: "a float", str: "text", tuple: "a tuple", list: "a list"}
    if isinstance(value, dict):
        return "a dict"
    return names.get(type(value), f"a {type(value).__name__}")
