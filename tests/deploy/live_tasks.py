"""What the worker of the live server runs beside commands."""

import holdfast as hf


@hf.task(queue="live")
def ask(*, ctx: hf.Context) -> None:
    """Ask for a limit in the middle of a task."""
    ctx.limit("calls")
