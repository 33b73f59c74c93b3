"""A member of a gang: notes that it began, shows that it lives, and goes when all may go.

Run as a program: `python -I -S member.py FOLDER`.
"""

import os
import sys
import time
from pathlib import Path

BEGUN = "begun"
FINISH = "finish"
BEAT_SECONDS = 0.02


def main(folder: Path) -> None:
    """Live until there is the file that tells everybody to finish."""
    name = f"{os.environ['HOLDFAST_TASK_ID']}.{os.environ['HOLDFAST_ATTEMPT']}"
    with open(folder / BEGUN, "a") as begun:
        begun.write(f"{name} {os.getpid()}\n")
    with open(folder / f"beat-{name}", "wb", buffering=0) as beat:
        while not (folder / FINISH).exists():
            os.pwrite(beat.fileno(), b"%018.6f" % time.time(), 0)
            time.sleep(BEAT_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
