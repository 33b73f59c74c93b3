"""A worker: what it claims, where code runs, and what the ledger says of it afterwards."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from holdfast.worker.worker import Replaced, Worker, WorkerOptions
from tests.waiting import eventually

from .line import Line
from .workplace import Workplace, call


@pytest.mark.parametrize("name", ["add", "add_in_thread"])
async def test_a_function_runs_within_the_worker(workplace: Workplace, name: str) -> None:
    task_id = await workplace.submit(call(name, 2, b=3))
    workplace.hire()
    task = await workplace.reach(task_id, "SUCCEEDED")
    assert task["result"] == "5"
    assert (await workplace.ended(task_id))["exit_code"] == 0


async def test_a_command_runs_and_its_output_is_kept(workplace: Workplace) -> None:
    task_id = await workplace.submit({"command": ["sh", "-c", "echo one; echo two >&2; exit 3"]})
    workplace.hire()
    attempt = await workplace.ended(task_id)
    assert (attempt["exit_code"], attempt["error"]) == (3, "exit code 3")
    assert await workplace.log(task_id) == b"one\ntwo\n"
