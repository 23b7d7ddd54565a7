"""The samples that a run has answered so far, in a file beside its report, so that the same command goes on after an
interruption. Lines of JSON: first what determines the samples, then one sample each."""
import json
import os
import pathlib

from niah import sample as samples
from niah.errors import Conflict, InvalidInput

FORMAT = 2


class Answered:
    """Reads the file, or begins it. `run`: a dict of all that determines the samples, by the names of the flags. Conflict: the file
    is of another run; names what differs, with both values. InvalidInput: it cannot be read or written, or is no such file. A
    last line that was cut off is dropped."""

    def __init__(self, path, run):
        self.path, self.samples = pathlib.Path(path), {}
        try:
            data = self.path.read_bytes() if self.path.exists() else b""
            # What is behind the last end of a line was being written when the run ended.
            whole = data.rfind(b"\n") + 1
            self._read(data[:whole].decode(errors="replace").splitlines(), run)
            if whole < len(data):
                os.truncate(self.path, whole)
        except OSError as error:
            raise InvalidInput(f"{path}: cannot write it: {error.strerror}") from None
        if whole == 0:
            self._append({"niah": FORMAT, "run": run})

    def _read(self, lines, run):
        for number, line in enumerate(lines, 1):
            values = self._object(number, line)
            if number == 1:
                if values.get("niah") != FORMAT or not isinstance(values.get("run"), dict):
                    raise self._unreadable(number, "no such file of this version")
                self._compare(values["run"], run)
                continue
            try:
                self.samples[str(values["name"])] = samples.from_json(values["sample"])
            except (KeyError, TypeError, ValueError) as error:
                raise self._unreadable(number, f"no sample: {error}") from None

    def _object(self, number, line):
        try:
            values = json.loads(line)
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise self._unreadable(number, "no JSON")
        return values

    def _unreadable(self, number, why):
        return InvalidInput(f"{self.path}, line {number}: not of a run of niah: {why}; remove the file, or give another --json")

    def _compare(self, there, run):
        for name, value in run.items():
            if there.get(name) != value:
                raise Conflict(f"{self.path}: an unfinished run with {name} {json.dumps(there.get(name))}, this one has {json.dumps(value)}; "
                               "run that command again, remove the file, or give another --json")

    def find(self, name):
        """The sample, if an earlier run has answered it; otherwise None."""
        return self.samples.get(name)

    def add(self, name, sample):
        """Writes a sample; it is in the file when this returns."""
        self._append({"name": name, "sample": samples.to_json(sample)})

    def _append(self, values):
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(values) + "\n")
        except OSError as error:
            raise InvalidInput(f"{self.path}: cannot write it: {error.strerror}") from None

    def remove(self):
        """Removes the file, once the report is written: nothing is left to resume."""
        self.path.unlink(missing_ok=True)
