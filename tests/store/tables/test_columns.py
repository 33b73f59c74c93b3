"""Ids and fences in columns; and every shape's fields are the columns of its statement."""

from typing import Any
from uuid import uuid4

import pytest

from holdfast.model.work.attempts import LockedLease, LockedTask
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.rules.resume import ResumableJob
from holdfast.store.migrate import load_schema
from holdfast.store.statements import load_statements
from holdfast.store.tables.access import keys, tokens
from holdfast.store.tables.columns import (
    attempt_columns,
    fence_columns,
    fence_values,
    id_columns,
    new_tokens,
)
from holdfast.store.tables.datasets import outputs
from holdfast.store.tables.order import continuations, dependencies, undos
from holdfast.store.tables.output import checkpoints, endpoints, logs
from holdfast.store.tables.placed import leases as placed_leases
from holdfast.store.tables.placed import ready as placed_ready
from holdfast.store.tables.submitting import new_jobs
from holdfast.store.tables.upkeep import partitions
from holdfast.store.tables.work import attempts, dead_letters, jobs, leases, ready, tasks, turns
from holdfast.store.tables.workers import workers
from tests.store.raw import Raw

TOKENS = [uuid4(), uuid4()]
FENCES = [Fence(TaskId(7, 1), 2, TOKENS[0]), Fence(TaskId(8, 0), 0, TOKENS[1])]

SHAPES = [
    (new_jobs.StoredJobs, "work/jobs", "store_jobs"),
    (LockedTask, "work/tasks", "lock_tasks"),
    (LockedTask, "work/tasks", "lock_tasks_of_jobs"),
    (LockedTask, "work/tasks", "lock_live_tasks"),
    (tasks.NewLease, "work/tasks", "assign_tasks"),
    (tasks.NewLease, "work/tasks", "assign_running"),
    (attempts.Succeeded, "work/tasks", "succeed_attempts"),
    (turns.TakenTurn, "work/turns", "take_turn"),
    (attempts.AttemptRun, "work/tasks", "end_attempts"),
    (attempts.FoundAttempt, "work/attempts", "find_attempt"),
    (leases.RenewedLease, "work/leases", "renew_leases"),
    (leases.ClaimedLease, "work/leases", "list_claimed_with_key"),
    (leases.AskedToStop, "work/leases", "list_asked_to_stop"),
    (ready.TakenTask, "work/ready", "take_ready"),
    (ready.TakenTask, "work/ready", "take_ready_by_id"),
    (jobs.SpecRow, "work/jobs", "load_specs"),
    (jobs.CountedMoves, "work/jobs", "count_moves"),
    (jobs.LockedJob, "work/jobs", "lock_job"),
    (jobs.JobFlags, "work/jobs", "read_job_flags"),
    (jobs.HeldJob, "work/jobs", "hold_jobs"),
    (jobs.JobOfAge, "work/jobs", "walk_jobs_by_age"),
    (jobs.JobToRerun, "work/jobs", "read_job_to_rerun"),
    (keys.UsedKey, "access/keys", "find_key"),
    (workers.KnownWorker, "workers/workers", "find_worker"),
    (workers.StoredSecret, "workers/workers", "read_secret_hashes"),
    (workers.CalledWorker, "workers/cluster", "read_called_workers"),
    (workers.FailingWorker, "workers/cluster", "count_failures"),
    (workers.FleetWorker, "workers/cluster", "read_fleet"),
    (placed_leases.WantedAttempt, "workers/cluster", "read_wanted"),
    (placed_leases.PlacedStop, "workers/cluster", "list_placed_stops"),
    (placed_leases.UnfinishedLoss, "workers/cluster", "list_unfinished_losses"),
    (placed_leases.GangMember, "workers/cluster", "read_gangs"),
    (placed_leases.RenewedAttempt, "workers/cluster", "renew_placed"),
    (placed_leases.Booked, "workers/cluster", "list_booked"),
    (placed_ready.ReadyOfJob, "workers/cluster", "list_demands"),
    (placed_ready.ReadyOfJob, "workers/cluster", "list_demands_of_job"),
    (placed_ready.TakenOfJob, "workers/cluster", "take_ready_of_jobs"),
    (logs.StoredStretch, "work/attempts", "append_logs"),
    (logs.Stretch, "work/attempts", "read_log"),
    (endpoints.Published, "output/endpoints", "read_endpoints"),
    (endpoints.Published, "output/endpoints", "put_endpoint"),
    (dead_letters.LetterState, "work/dead_letters", "lock_dead_letters"),
    (dead_letters.LetterState, "work/dead_letters", "read_letters"),
    (outputs.DeclaredOutput, "datasets/datasets", "find_declared_outputs"),
    (dependencies.UnmetDependency, "order/dependencies", "find_unmet_dependencies"),
    (dependencies.ReleasedJob, "order/dependencies", "count_met"),
    (ResumableJob, "order/resume", "read_resumable"),
    (continuations.KnownReplay, "order/resume", "list_replays"),
    (undos.Cause, "order/undo", "read_causes"),
    (undos.UsedJob, "order/undo", "find_used_jobs"),
    (undos.UndoneTaskRow, "order/undo", "read_undone_tasks"),
    (undos.UndoneJob, "order/undo", "read_undone_job"),
    (undos.UndoneOutput, "order/undo", "read_undone_outputs"),
    (partitions.Partition, "output/events", "read_partitions"),
    (partitions.JobIdPace, "output/events", "read_job_id_pace"),
    (tokens.TokenRow, "access/tokens", "list_tokens"),
]
# What a statement calls otherwise, or what has no name there.
RENAMED: dict[type[Any], dict[str, str]] = {
    LockedLease: {"cancel_mode": "job_cancel_mode"},
    checkpoints.Checkpoint: {"checkpoint": "text"},
    tasks.StartedTask: {"state": "before"},
}
RENAMED_SHAPES = [
    (LockedLease, "work/leases", "lock_leases"),
    (checkpoints.Checkpoint, "work/attempts", "load_checkpoint"),
    (tasks.StartedTask, "work/tasks", "start_building"),
    (tasks.StartedTask, "work/tasks", "start_running"),
]


def test_ids_and_fences_are_spread_into_arrays() -> None:
    ids = {"job_ids": [7, 8], "task_indexes": [1, 0]}
    assert id_columns([fence.task_id for fence in FENCES]) == ids
    numbered = ids | {"attempts": [2, 0]}
    assert attempt_columns([fence[:2] for fence in FENCES]) == numbered
    assert fence_columns(FENCES) == numbered | {"tokens": TOKENS}


def test_tokens_differ_and_are_random_uuids() -> None:
    tokens = new_tokens(1000)
    assert len(set(tokens)) == 1000
    assert {token.version for token in tokens} == {4}
    assert new_tokens(0) == []


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
    texts = {each.name: each.text for each in load_schema().definitions}
    listed = texts["functions/submissions"].split("as new(")[1].split(")")[0]
    fields = new_jobs.NewJob._fields
    assert [name.strip() for name in listed.split(",")] == list(fields)
    assert load_statements("work/jobs")["store_jobs"].parameters[: len(fields)] == fields
