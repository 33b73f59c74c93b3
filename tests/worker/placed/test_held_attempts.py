"""Attempts that a worker holds: run, dropped once they are over, and never begun again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.client.transport import Transport
from holdfast.model.workers.resources import Resources
from holdfast.worker.allowing import EVERYTHING
from holdfast.worker.building.builder import Builder
from holdfast.worker.placed.attempt import PlacedAttempt, TakeoverRecord
from holdfast.worker.placed.held_attempts import HeldAttempts
from holdfast.worker.placed.runner import PlacedRunner
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import KILLED
from tests.waiting import eventually
from tests.worker.placed_orders import a_job

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[HeldAttempts]:
    """What a worker holds whose server is out of reach."""
    async with Transport(NOWHERE) as transport:
        builder = Builder(tmp_path / "cache", transport)
        held = HeldAttempts(
            PlacedRunner(transport, builder, allowed=EVERYTHING, on_change=lambda: None)
        )
        yield held
        await held.abandon()


def an_attempt(tmp_path: Path, number: int = 0, **job: Any) -> PlacedAttempt:
    record = TakeoverRecord(
        task_id="7.0",
        attempt=number,
        lease_token=uuid4(),
        job=a_job(**job),
        began_at=boot_clock(),
    )
    return PlacedAttempt(record, tmp_path / f"7.0.{number}", boot_clock() + 600)


async def test_an_attempt_that_is_over_is_held_until_it_is_dropped(
    held: HeldAttempts, tmp_path: Path
) -> None:
    attempt = an_attempt(tmp_path)
    attempt.outcome = KILLED
    attempt.folder.mkdir()
    held.add(attempt)
    assert ([*held], len(held), held.running_count) == ([attempt], 1, 0)
    assert held.find(attempt.key) is attempt
    assert not held.was_dropped(attempt.key)
    held.drop(attempt.key)
    assert (len(held), held.find(attempt.key)) == (0, None)
    await eventually(lambda: not attempt.folder.exists())


async def test_what_was_dropped_is_known_as_long_as_calls_name_it(
    held: HeldAttempts, tmp_path: Path
) -> None:
    attempt = an_attempt(tmp_path)
    attempt.outcome = KILLED
    held.add(attempt)
    held.drop(attempt.key)
    held.forget_dropped({attempt.key, ("8.0", 0)})
    assert held.was_dropped(attempt.key)
    held.forget_dropped({("8.0", 0)})
    assert not held.was_dropped(attempt.key)


async def test_an_attempt_is_run_and_cannot_be_dropped_meanwhile(
    held: HeldAttempts, tmp_path: Path
) -> None:
    attempt = an_attempt(tmp_path, resources=Resources(disk=1 << 60))  # more than there is
    held.add(attempt)
    held.drop(attempt.key)
    assert (len(held), held.running_count) == (1, 1)
    await held.wait_for_an_end(60)
    assert (len(held), held.running_count) == (1, 0)
    assert attempt.outcome is not None
    assert attempt.outcome.status == "worker_failed"
    held.drop(attempt.key)
    await held.wait_until_empty(60)
    assert len(held) == 0


async def test_everything_is_stopped_and_waited_for(held: HeldAttempts, tmp_path: Path) -> None:
    attempts = [an_attempt(tmp_path, number) for number in range(2)]
    for attempt in attempts:
        held.add(attempt)
    await held.stop_all("handed_back", 60)
    assert held.running_count == 0
    assert [attempt.outcome and attempt.outcome.status for attempt in attempts] == [
        "handed_back",
        "handed_back",
    ]


async def test_waiting_for_the_last_to_be_dropped_has_an_end(
    held: HeldAttempts, tmp_path: Path
) -> None:
    attempt = an_attempt(tmp_path)
    attempt.outcome = KILLED
    held.add(attempt)
    await held.wait_until_empty(0.01)
    assert len(held) == 1
    waiting = asyncio.create_task(held.wait_until_empty(60))
    await asyncio.sleep(0)
    held.drop(attempt.key)
    await waiting
