"""`client.schedules` on a real server."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from holdfast.client.client import Client
from holdfast.errors import Invalid, NotFound, Refused
from tests.client.namespaces.conftest import Face

SPEC = {"entrypoint": {"function": "app:work"}, "queue": "nobody"}


def test_a_schedule_is_set_fired_and_deleted(call: Face, client: Client) -> None:
    name, schedules = f"s/{uuid4().hex}", client.schedules
    with pytest.raises(NotFound, match="schedule"):
        call(schedules.get, name)
    stored = call(
        schedules.set,
        name,
        SPEC,
        every=timedelta(hours=1),
        start_at=datetime(2020, 1, 1, tzinfo=UTC),
        end_at=datetime(2999, 1, 1, tzinfo=UTC),
        jitter=timedelta(seconds=5),
        overlap="queue",
    )
    assert (stored.every, stored.jitter, stored.overlap, stored.version) == (3600, 5, "queue", 1)
    assert name in [each.name for each in call(schedules.list).schedules]
    assert call(schedules.pause, name)
    assert not call(schedules.pause, name)
    job_id = call(schedules.run_now, name)
    first, last = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 2, tzinfo=UTC)
    told = call(schedules.backfill, name, first, last, dry_run=True)
    assert (told.instants, told.job_ids) == (3, [])
    made = call(schedules.backfill, name, first, last, overlap="allow")
    assert len(made.job_ids) == 3
    found = call(schedules.firings, name).firings
    assert [each.job_id for each in found] == [job_id, *reversed(made.job_ids)]
    assert call(schedules.resume, name)
    assert call(schedules.delete, name)
    assert not call(schedules.delete, name)


def test_what_cannot_be_is_said_with_its_field(call: Face, client: Client) -> None:
    for options, field in (
        ({"cron": "0 3 * * *", "overlap": "both"}, "overlap"),
        ({"cron": "often"}, "cron"),
        ({"every": 60, "start_at": datetime(2020, 1, 1)}, "start_at"),
    ):
        with pytest.raises(Invalid) as refused:
            call(client.schedules.set, "s", SPEC, **options)
        assert refused.value.field == field
    with pytest.raises(Refused, match="version 0, not 4"):
        call(client.schedules.set, f"s{uuid4().hex}", SPEC, every=60, if_version=4)
