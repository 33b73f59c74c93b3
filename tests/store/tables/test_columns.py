"""Ids and fences in columns; and every shape's fields are the columns of its statement."""

from typing import Any
from uuid import uuid4

import pytest

from holdfast.model.attempts import LockedLease, LockedTask
from holdfast.model.fence import Fence
from holdfast.model.ids import TaskId
from holdfast.rules.resume import ResumableJob
from holdfast.store.statements import load_statements
from holdfast.store.tables import (
    attempts,
    checkpoints,
    continuations,
    dead_letters,
    dependencies,
    endpoints,
    jobs,
    keys,
    leases,
    logs,
    partitions,
    ready,
    tasks,
    tokens,
    undos,
    workers,
)
from holdfast.store.tables.columns import (
    attempt_columns,
    fence_columns,
    fence_values,
    id_columns,
)
from holdfast.store.tables.datasets import outputs
from holdfast.store.tables.placed import leases as placed_leases
from holdfast.store.tables.placed import ready as placed_ready
from tests.store.raw import Raw

TOKENS = [uuid4(), uuid4()]
FENCES = [Fence(TaskId(7, 1), 2, TOKENS[0]), Fence(TaskId(8, 0), 0, TOKENS[1])]

SHAPES = [
    (LockedTask, "tasks", "lock_tasks"),
    (LockedTask, "tasks", "lock_tasks_of_jobs"),
    (LockedTask, "tasks", "lock_live_tasks"),
    (tasks.NewLease, "tasks", "assign_tasks"),
    (attempts.SucceededAttempt, "tasks", "succeed_attempts"),
    (attempts.AttemptRun, "tasks", "end_attempts"),
    (attempts.FoundAttempt, "attempts", "find_attempt"),
    (leases.RenewedLease, "leases", "renew_leases"),
    (leases.ClaimedLease, "leases", "list_claimed_with_key"),
    (leases.AskedToStop, "leases", "list_asked_to_stop"),
    (ready.TakenTask, "ready", "take_ready"),
    (ready.TakenTask, "ready", "take_ready_by_id"),
    (jobs.SpecRow, "jobs", "load_specs"),
    (jobs.FinishedJob, "jobs", "finish_jobs"),
    (jobs.LockedJob, "jobs", "lock_job"),
    (jobs.JobFlags, "jobs", "read_job_flags"),
    (jobs.HeldJob, "jobs", "hold_jobs"),
    (jobs.JobOfAge, "jobs", "walk_jobs_by_age"),
    (jobs.JobToRerun, "jobs", "read_job_to_rerun"),
    (keys.UsedKey, "keys", "find_key"),
    (workers.KnownWorker, "workers", "find_worker"),
    (workers.StoredSecret, "workers", "read_secret_hashes"),
    (workers.CalledWorker, "cluster", "read_called_workers"),
    (workers.FailingWorker, "cluster", "count_failures"),
    (workers.FleetWorker, "cluster", "read_fleet"),
    (placed_leases.WantedAttempt, "cluster", "read_wanted"),
    (placed_leases.PlacedStop, "cluster", "list_placed_stops"),
    (placed_leases.UnfinishedLoss, "cluster", "list_unfinished_losses"),
    (placed_leases.GangMember, "cluster", "read_gangs"),
    (placed_leases.RenewedAttempt, "cluster", "renew_placed"),
    (placed_leases.Booked, "cluster", "list_booked"),
    (placed_ready.ReadyOfJob, "cluster", "list_demands"),
    (placed_ready.ReadyOfJob, "cluster", "list_demands_of_job"),
    (placed_ready.TakenOfJob, "cluster", "take_ready_of_jobs"),
    (logs.StoredStretch, "attempts", "append_logs"),
    (logs.Stretch, "attempts", "read_log"),
    (endpoints.Published, "endpoints", "read_endpoints"),
    (endpoints.Published, "endpoints", "put_endpoint"),
    (dead_letters.LockedLetter, "dead_letters", "lock_dead_letters"),
    (outputs.DeclaredOutput, "datasets", "find_declared_outputs"),
    (dependencies.UnmetDependency, "order", "find_unmet_dependencies"),
    (dependencies.ReleasedJob, "order", "count_met"),
    (ResumableJob, "resume", "read_resumable"),
    (continuations.KnownReplay, "resume", "list_replays"),
    (undos.Cause, "undo", "read_causes"),
    (undos.UsedJob, "undo", "find_used_jobs"),
    (undos.UndoneTaskRow, "undo", "read_undone_tasks"),
    (undos.UndoneJob, "undo", "read_undone_job"),
    (undos.UndoneOutput, "undo", "read_undone_outputs"),
    (partitions.Partition, "events", "read_partitions"),
    (partitions.JobIdPace, "events", "read_job_id_pace"),
    (tokens.TokenRow, "tokens", "list_tokens"),
]
# What a statement calls otherwise, or what has no name there.
RENAMED: dict[type[Any], dict[str, str]] = {
    LockedLease: {"cancel_mode": "job_cancel_mode"},
    checkpoints.Checkpoint: {"checkpoint": "text"},
    tasks.StartedTask: {"state": "before"},
}
RENAMED_SHAPES = [
    (LockedLease, "leases", "lock_leases"),
    (checkpoints.Checkpoint, "attempts", "load_checkpoint"),
    (tasks.StartedTask, "tasks", "start_building"),
    (tasks.StartedTask, "tasks", "start_running"),
]


def test_ids_and_fences_are_spread_into_arrays() -> None:
    ids = {"job_ids": [7, 8], "task_indexes": [1, 0]}
    assert id_columns([fence.task_id for fence in FENCES]) == ids
    numbered = ids | {"attempts": [2, 0]}
    assert attempt_columns([fence[:2] for fence in FENCES]) == numbered
    assert fence_columns(FENCES) == numbered | {"tokens": TOKENS}


def test_one_fence_has_four_named_values() -> None:
    assert fence_values(FENCES[0]) == {
        "job_id": 7, "task_index": 1, "attempt": 2, "token": TOKENS[0]
    }  # fmt: skip


@pytest.mark.parametrize(("shape", "aggregate", "name"), [*SHAPES, *RENAMED_SHAPES])
async def test_the_fields_of_a_shape_are_the_columns_of_its_statement(
    raw: Raw, shape: Any, aggregate: str, name: str
) -> None:
    prepared = await raw.connection.prepare(load_statements(aggregate)[name].text)
    names = RENAMED.get(shape, {})
    columns = [names.get(column.name, column.name) for column in prepared.get_attributes()]
    assert columns == list(shape._fields)


def test_the_fields_of_a_new_job_come_in_the_order_of_its_columns() -> None:
    insert = load_statements("jobs")["insert_jobs"]
    listed = insert.text.split("as new(")[1].split(")")[0]
    assert [name.strip() for name in listed.split(",")] == list(jobs.NewJob._fields)
    assert insert.parameters[: len(jobs.NewJob._fields)] == jobs.NewJob._fields
