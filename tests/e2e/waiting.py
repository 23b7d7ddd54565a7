"""The wait of tests for what they cannot be told of: another process, work in the background."""
import time


def wait_until(condition, seconds=30, pause=0.02):
    """Whether it has come true within the time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True
