"""Compare the tables of a ledger with what the model says should be in them."""

import json
from collections import defaultdict
from datetime import timedelta
from typing import Any

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from tests.clock import Clock
from tests.operations.model_state import ModelState

# The tables round to microseconds, and so does the arithmetic with backoffs.
ROUNDING = timedelta(milliseconds=1)


async def compare_tasks(clock: Clock, model: ModelState) -> None:
    """Compare tasks, and take over when retries became eligible: chance has a hand in that."""
    rows = await clock.fetch("select * from holdfast.tasks order by job_id, task_index")
    found = {TaskId(row["job_id"], row["task_index"]): row for row in rows}
    assert found.keys() == {task.id for task in model.tasks()}
    for task in model.tasks():
        row = found[task.id]
        seen = (TaskState(row["state"]), row["attempt"], row["finished_at"] is not None)
        assert seen == (task.state, task.attempt, task.finished), task
        counters = (row["failure_count"], row["preemption_count"], row["free_loss_count"])
        assert counters == task.counters, task
        if row["eligible_at"] != task.eligible_at:
            spread = timedelta(seconds=task.delay * 0.5) + ROUNDING
            assert abs(row["eligible_at"] - task.eligible_at) <= spread, task
            task.eligible_at = row["eligible_at"]
            task.delay = 0.0


async def compare_leases(clock: Clock, model: ModelState) -> None:
    """Compare leases: there is one for each attempt that is open or not yet released."""
    rows = await clock.fetch("select * from holdfast.leases")
    seen = {
        TaskId(row["job_id"], row["task_index"]): (
            row["attempt"], row["lease_token"], row["worker_id"], row["ending"],
            row["cancel_requested_at"] is not None, row["expires_at"],
            json.loads(row["devices"] or "[]"),
        )
        for row in rows
    }  # fmt: skip
    wanted = {
        task.id: (
            task.lease.attempt, task.lease.token, task.lease.worker, task.lease.ending,
            task.lease.cancelled, task.lease.expires_at, task.lease.devices,
        )
        for task in model.tasks()
        if task.lease is not None
    }  # fmt: skip
    assert seen == wanted


async def compare_jobs(clock: Clock, model: ModelState) -> None:
    """Compare the states of jobs and the counts they follow from."""
    rows = {row["job_id"]: row for row in await clock.fetch("select * from holdfast.jobs")}
    assert rows.keys() == model.jobs.keys()
    for job in model.jobs.values():
        row = rows[job.id]
        assert (TaskState(row["state"]), row["cancel_mode"]) == (job.state, job.cancel), job
        counts = job.counts()
        seen = {name: row[name] for name in counts._fields}
        assert seen == counts._asdict(), job


async def compare_line(clock: Clock, model: ModelState) -> None:
    """Compare what can be claimed and what waits; stale rows of the line are nobody's concern."""
    ready = await _task_ids(clock, "ready")
    waiting = await _task_ids(clock, "waiting")
    assert len(ready) == len(set(ready))
    claimable = {task.id for task in model.tasks() if model.is_claimable(task)}
    assert claimable <= set(ready)
    pending = {
        task.id
        for task in model.tasks()
        if task.state == TaskState.PENDING and model.job_of(task).is_live
    }
    assert set(ready) & pending == claimable
    assert set(waiting) & pending == pending - claimable
    assert set(waiting) <= {t.id for t in model.tasks() if t.state == TaskState.PENDING}


async def compare_notes(clock: Clock, model: ModelState) -> None:
    """Compare how much the user code of each task has said."""
    rows = await clock.fetch(
        "select job_id, task_index, count(*) from holdfast.notes where kind = 'user:loaded' "
        "group by job_id, task_index"
    )
    seen = {TaskId(row["job_id"], row["task_index"]): row["count"] for row in rows}
    assert seen == {task.id: task.notes for task in model.tasks() if task.notes}


async def compare_history(clock: Clock, model: ModelState) -> None:
    """Compare attempts and the stream of events of every task and job."""
    attempts: dict[TaskId, list[Any]] = defaultdict(list)
    for row in await clock.fetch("select * from holdfast.attempts order by attempt"):
        attempts[TaskId(row["job_id"], row["task_index"])].append(row)
    streams: dict[TaskId, list[Any]] = defaultdict(list)
    for row in await clock.fetch(
        "select job_id, task_index, seq, type::text, ts from holdfast.events order by seq"
    ):
        streams[TaskId(row["job_id"], row["task_index"])].append(row)
    for job in model.jobs.values():
        assert [row["type"] for row in streams.pop(TaskId(job.id, -1))] == job.story
        for task in job.tasks:
            stream = streams.pop(task.id, [])
            assert [row["type"] for row in stream] == task.story
            assert [row["seq"] for row in stream] == list(range(len(stream)))
            assert [row["ts"] for row in stream] == sorted(row["ts"] for row in stream)
            ended = attempts.pop(task.id, [])
            assert [TaskState(row["state"]) for row in ended] == task.attempts
            assert [row["attempt"] for row in ended] == list(range(len(ended)))
            open_ones = [row["attempt"] for row in ended if row["released_at"] is None]
            ending = task.lease is not None and task.lease.ending
            assert open_ones == ([task.lease.attempt] if ending and task.lease else [])
    assert not streams
    assert not attempts


async def _task_ids(clock: Clock, table: str) -> list[TaskId]:
    rows = await clock.fetch(f"select job_id, task_index from holdfast.{table}")
    return [TaskId(*row) for row in rows]
