"""Errors that end a run. Each has the exit code that `recollect` gives its like (recollect --help)."""


class NiahError(Exception):
    exit_code = 1


class InvalidInput(NiahError):
    """A flag's value, a haystack or a file that cannot be used."""

    exit_code = 4


class Conflict(NiahError):
    """Something else is there already, or the model is of another kind."""

    exit_code = 7


class NoRoom(NiahError):
    """The disk or a budget of the server is too small."""

    exit_code = 8
