"""How far the work is, on standard error: a bar if that is a terminal, otherwise a line from time to time."""
import math
import sys
import time

BAR_WIDTH = 30
BETWEEN_DRAWS_S, BETWEEN_LINES_S = 0.1, 30.0


def duration(seconds):
    """1m5s of 64.2."""
    left = math.ceil(seconds)
    hours, minutes, seconds = left // 3600, left // 60 % 60, left % 60
    return "".join(f"{count}{unit}" for count, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if count) or "0s"


def line(label, done, total, note, elapsed_s, begun=0):
    """books [####....]  50 %  note  1m5s left. `elapsed_s`: the time since `begun` was done."""
    share = min(1.0, max(0.0, done / total)) if total else 0.0
    full = int(share * BAR_WIDTH)
    text = f"{label} [{'#' * full}{'.' * (BAR_WIDTH - full)}] {100 * share:3.0f} %  {note}"
    if share < 1 and done - begun > 0.01 * total:
        text += f"  {duration(elapsed_s * (total - done) / (done - begun))} left"
    return text


class ProgressBar:
    """What the first update has done may be from before: the time left follows from what came after it."""

    def __init__(self, label, total):
        self.label, self.total, self.terminal = label, total, sys.stderr.isatty()
        self.begun, self.done, self.note, self.drawn = None, 0, "", False
        self.start = time.monotonic()
        self.last_draw = -math.inf

    def update(self, done, note):
        self.done, self.note = done, note
        now = time.monotonic()
        if self.begun is None:
            self.begun, self.start = done, now
            if not self.terminal:
                self.last_draw = now  # short work passes without a line
        if now - self.last_draw >= (BETWEEN_DRAWS_S if self.terminal else BETWEEN_LINES_S):
            self._draw()

    def close(self):
        """Leaves the last state on its line."""
        if self.drawn:
            self._draw()
            if self.terminal:
                print(file=sys.stderr)

    def _draw(self):
        self.drawn, self.last_draw = True, time.monotonic()
        text = line(self.label, self.done, self.total, self.note, self.last_draw - self.start, self.begun)
        # On a terminal, clears what a longer line left behind.
        print(f"\r{text}\033[K" if self.terminal else text, end="" if self.terminal else "\n", file=sys.stderr, flush=True)
