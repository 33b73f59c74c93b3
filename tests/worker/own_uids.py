"""A place for attempts that are users of their own: only root can have such."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FIRST, LAST = 1_900_000_000, 1_900_065_535
RANGE = f"{FIRST}-{LAST}"


@contextmanager
def open_house() -> Iterator[Path]:
    """Have a folder that every user may enter; without root, the test says why it does not run."""
    if os.geteuid() != 0:
        pytest.skip("attempts that are users of their own need root")
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder)
