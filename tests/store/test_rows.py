"""The shapes of rows fit the statements that fill them."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from holdfast.model.ids import TaskId
from holdfast.store.events import Event
from holdfast.store.rows import LockedLease, LockedTask
from holdfast.store.statements import load_statements
from tests.store.raw import Raw

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def a_lease(**changes: Any) -> LockedLease:
    return LockedLease(
        job_id=1,
        task_index=0,
        attempt=0,
        lease_token=uuid4(),
        worker_id="w1",
        ending=False,
        cancelled=False,
        cancel_reason=None,
        expires_at=NOW,
        run_deadline_at=None,
        cancel_deadline_at=None,
        job_cancel_mode=None,
        job_is_live=True,
        job_cancel_reason=None,
    )._replace(**changes)


def test_a_locked_task_knows_its_name() -> None:
    assert LockedTask(4182, 3, 1, 0, 0, 0, 0).id == TaskId(4182, 3)


@pytest.mark.parametrize(
    ("cancelled", "job_cancel_mode", "cancel"),
    [
        (False, None, None),
        (True, None, "soft"),
        (False, "soft", "soft"),
        (True, "soft", "soft"),
        (False, "hard", "hard"),
        (True, "hard", "soft"),
    ],
)
def test_a_lease_knows_how_its_end_was_asked_for(
    cancelled: bool, job_cancel_mode: Any, cancel: str | None
) -> None:
    assert a_lease(cancelled=cancelled, job_cancel_mode=job_cancel_mode).cancel == cancel


async def columns_of(raw: Raw, aggregate: str, name: str) -> list[str]:
    prepared = await raw.connection.prepare(load_statements(aggregate)[name].text)
    return [column.name for column in prepared.get_attributes()]


@pytest.mark.parametrize("name", ["lock_tasks", "lock_next_tasks"])
async def test_a_locked_tasks_columns_come_in_the_order_of_its_fields(raw: Raw, name: str) -> None:
    assert await columns_of(raw, "tasks", name) == list(LockedTask._fields)


async def test_a_locked_leases_columns_come_in_the_order_of_its_fields(raw: Raw) -> None:
    columns = await columns_of(raw, "leases", "lock_leases")
    renamed = {"cancel_mode": "job_cancel_mode"}
    assert [renamed.get(name, name) for name in columns] == list(LockedLease._fields)


@pytest.mark.parametrize("name", ["read_events", "list_events"])
async def test_an_events_columns_come_in_the_order_of_its_fields(raw: Raw, name: str) -> None:
    assert await columns_of(raw, "events", name) == list(Event._fields)
