"""Turns of workers by one call of the database: ends, claims, and the counts of jobs for both."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple
from uuid import UUID

from holdfast.store.database import Database
from holdfast.store.statements import load_statements
from holdfast.store.tables.submitting.new_jobs import (
    NewJob,
    StoredJobs,
    TasksInLine,
    given_to_store,
    new_job_columns,
)
from holdfast.store.tables.work.attempts import Success, success_columns
from holdfast.store.tables.work.ready import Place

_TURNS = load_statements("work/turns")
# What a random byte becomes that holds the version of a UUID, or its variant.
_VERSION = bytes(byte & 0x0F | 0x40 for byte in range(256))
_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))


class Asking(NamedTuple):
    """Who claims how many tasks, under which key, and whether it starts them at once."""

    worker_id: str
    tasks_max: int
    claim_key: str | None
    digest: bytes | None
    start: bool


class TakenTurn(NamedTuple):
    """What a turn has done, in columns that are None instead of empty.

    Which successes are recorded, by their positions from 1 on; what was claimed, by the positions
    of those who ask; of each queue the first task that was found, if asked for.
    """

    ended: list[int] | None
    ended_seconds: list[float] | None
    ended_workers: list[str] | None
    # Nothing was claimed: a worker is lost, or tasks have to be looked at before they are taken.
    is_declined: bool | None
    # Others hold tasks that were to be taken; there may be more behind them.
    is_short: bool | None
    num_stale: int | None
    requests: list[int] | None
    job_ids: list[int] | None
    task_indexes: list[int] | None
    attempt_numbers: list[int] | None
    tokens: list[UUID] | None
    expiries: list[datetime] | None
    started: list[bool] | None
    waits: list[float] | None
    inputs: list[str | None] | None
    failure_counts: list[int] | None
    preemption_counts: list[int] | None
    free_loss_counts: list[int] | None
    found_queues: list[str] | None
    found_urgencies: list[int] | None
    found_at: list[datetime] | None
    found_job_ids: list[int] | None
    found_indexes: list[int] | None
    # How many tasks were put behind a limit; and in how many seconds a rate allows more.
    num_gated: int | None
    opens_in: float | None
    # What stands in line again, since ends have freed slots; without a task, a whole queue.
    opened_queues: list[str] | None
    opened_job_ids: list[int | None] | None
    opened_indexes: list[int | None] | None
    # Of those who were given nothing, one came under a key that was used before.
    is_repeated: bool
    ended_job_ids: list[int] | None
    has_follow_ups: bool | None


async def take_turn(
    database: Database,
    successes: Sequence[Success],
    asking: Sequence[Asking],
    *,
    places: Mapping[str, Place],
    look_ahead: int = 0,
    is_bounded: bool,
    notes_places: bool,
) -> TakenTurn:
    """Record what has ended well, and lease the first tasks of queues, each from a place on.

    Where there are limits, so many more are looked at than are wanted, since some may have to wait.

    Raises JobChanged or KeyTaken; then, as with a lock that cannot be had, nothing has happened.
    """
    row = await database.call(
        _TURNS["take_turn"],
        **success_columns(successes),
        **_claim_columns(
            asking, places, look_ahead=look_ahead, is_bounded=is_bounded, notes_places=notes_places
        ),
    )
    return TakenTurn._make(row)


async def store_and_take(
    database: Database,
    jobs: Sequence[NewJob],
    tasks: TasksInLine,
    *,
    asking: Sequence[Asking],
    policies_version: int,
    partitions_end: int,
    places: Mapping[str, Place],
    is_bounded: bool,
    notes_places: bool,
) -> tuple[StoredJobs, TakenTurn]:
    """Store jobs as `store_jobs_at_once` does, and lease the first tasks of queues after that.

    Raises what either raises; then nothing has happened. If nothing is stored, nothing is leased.
    """
    row = await database.call(
        _TURNS["store_and_take"],
        **new_job_columns(jobs, tasks),
        **given_to_store(policies_version=policies_version, partitions_end=partitions_end),
        **_claim_columns(asking, places, is_bounded=is_bounded, notes_places=notes_places),
    )
    num_stored = len(StoredJobs._fields)
    return StoredJobs._make(row[:num_stored]), TakenTurn._make(row[num_stored:])


def _claim_columns(
    asking: Sequence[Asking],
    places: Mapping[str, Place],
    *,
    look_ahead: int = 0,
    is_bounded: bool,
    notes_places: bool,
) -> dict[str, Any]:
    firsts = list(accumulate((each.tasks_max for each in asking), initial=1))
    tasks_max = firsts[-1] - 1
    return {
        "queues": list(places),
        "urgencies": [place.urgency for place in places.values()],
        "eligible_at": [place.eligible_at for place in places.values()],
        "first_job_ids": [place.job_id for place in places.values()],
        "first_indexes": [place.task_index for place in places.values()],
        "tasks_max": tasks_max + look_ahead,
        "firsts": firsts,
        "worker_ids": [each.worker_id for each in asking],
        "claim_keys": [each.claim_key for each in asking],
        "digests": [each.digest for each in asking],
        "starting": [each.start for each in asking],
        "is_bounded": is_bounded,
        "noise": _token_noise(tasks_max),
        "notes_places": notes_places,
    }


def _token_noise(count: int) -> bytes:
    """Make lease tokens, as `new_tokens` does, in one piece."""
    noise = bytearray(os.urandom(16 * count))
    noise[6::16] = noise[6::16].translate(_VERSION)
    noise[8::16] = noise[8::16].translate(_VARIANT)
    return bytes(noise)
