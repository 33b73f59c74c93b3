"""Placed functions that have children."""

import os
import time
from pathlib import Path

import holdfast as hf

ENDPOINT = "family/parent"


@hf.task(queue=None)
def wait_to_be_stopped(folder: str, *, ctx: hf.Context) -> None:
    """Write down which process this is, and go on for ever."""
    Path(folder, "child").write_text(str(os.getpid()))
    while not ctx.cancelled:
        time.sleep(0.05)


@hf.task(queue=None)
def have_a_child(folder: str, *, ctx: hf.Context) -> None:
    """Publish the id of a child, and fail as soon as somebody wants that."""
    child = ctx.submit(wait_to_be_stopped, folder)
    ctx.register_endpoint(ENDPOINT, child.id, {"kind": "job"})
    while not Path(folder, "fail").exists():
        time.sleep(0.05)
    raise hf.PermanentError("as asked")
