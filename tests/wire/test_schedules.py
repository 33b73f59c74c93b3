"""Schedules on the wire: their addresses, and requests that say what is not known."""

import msgspec
import pytest

from holdfast.wire.schedules import BackfillRequest, ScheduleRequest, schedule_path


def test_a_name_is_one_part_of_an_address() -> None:
    assert schedule_path("team/app:nightly") == "/api/schedules/team%2Fapp%3Anightly"


def test_a_field_that_is_not_known_is_refused() -> None:
    job = {"entrypoint": {"function": "app:work"}}
    known = {"spec": job, "cron": "@daily"}
    assert msgspec.convert(known, ScheduleRequest).overlap == "skip"
    for shape, fields in (
        (ScheduleRequest, known | {"timezone": "UTC"}),
        (ScheduleRequest, {"cron": "@daily"}),
        (ScheduleRequest, known | {"start_at_ms": -1}),
        (BackfillRequest, {"from_ms": 1}),
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(fields, shape)
