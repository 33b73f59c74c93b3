"""Tasks that end in every way there is; what they say of it themselves holds no secret."""

import ctypes
import os
import signal
from pathlib import Path

import holdfast as hf


@hf.task
def succeed() -> str:
    """End well."""
    return "well"


@hf.task
def fail() -> None:
    """End badly."""
    raise ValueError("on purpose")


@hf.task
def crash(marker: str) -> None:
    """Take the worker's process along, once."""
    if not Path(marker).exists():
        Path(marker).touch()
        if marker.endswith("segv"):
            ctypes.string_at(0)
        os.kill(os.getpid(), signal.SIGKILL)
