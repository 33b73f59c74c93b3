"""The tasks that the queue benchmark runs."""

import time
from typing import Any

import holdfast as hf


@hf.task(queue="bench")
async def nothing(_: Any) -> None:
    """Do nothing, which is what is measured."""


@hf.task(queue="bench")
async def tell_start(_: Any) -> int:
    """Say when the function began, on this machine's clock."""
    return time.time_ns()


@hf.task(queue="bench", concurrency_key=hf.KeyOfInput("customer"))
async def keyed(_: Any) -> None:
    """Do nothing, for one of many customers."""
