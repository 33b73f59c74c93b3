"""A schedule as an answer: what everybody may see, and what comes next."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.api import schedule_answers as answers
from holdfast.api.convert import to_ms
from holdfast.store.reads.schedules import FiringRow, MissCount, MissRow, ScheduleRow

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def a_row(terms: dict[str, Any], **fields: Any) -> ScheduleRow:
    spec = {"entrypoint": {"function": "app:work", "args": ["secret"]}, "queue": "q"}
    known: dict[str, Any] = {
        "spec": msgspec.json.encode(spec).decode(), "inputs": None, "placed": False,
        "terms": msgspec.json.encode(terms).decode(), "declared_by": None, "version": 1,
        "created_at": NOW, "created_by": "ann", "changed_at": NOW, "changed_by": "ann",
        "paused_at": None, "paused_by": None, "retired_at": None, "next_at": NOW, "due_at": NOW,
        "problem": None,
    }  # fmt: skip
    return ScheduleRow(schedule_id=1, name="s", **known | fields)


def test_arguments_are_for_those_alone_who_may_see_content() -> None:
    row = a_row({"every": 86_400, "start_at": NOW})
    status = answers.schedule(row, [], None)
    assert "secret" not in repr(status)
    assert answers.spec_of(row)["entrypoint"]["args"] == ["secret"]
    assert status.next_firings_ms == [to_ms(NOW + n * DAY) for n in range(5)]


def test_the_state_says_why_it_does_not_fire() -> None:
    for fields, state in (
        ({}, "active"),
        ({"next_at": None}, "ended"),
        ({"next_at": None, "paused_at": NOW, "paused_by": "bob"}, "paused"),
        ({"next_at": None, "paused_at": NOW, "retired_at": NOW}, "retired"),
    ):
        assert answers.schedule(a_row({"cron": "@daily"}, **fields), [], None).state == state


def test_times_that_can_no_longer_be_told_leave_the_one_that_is_known() -> None:
    row = a_row({"cron": "@daily", "tz": "Gone/Away"}, problem="tz: is no time zone")
    status = answers.schedule(row, [], MissCount(3, NOW - DAY))
    assert (status.next_firings_ms, status.problem) == ([to_ms(NOW)], "tz: is no time zone")
    assert (status.missed_instants, status.last_missed_ms) == (3, to_ms(NOW - DAY))


def test_a_firing_whose_job_is_gone_keeps_its_id() -> None:
    row = FiringRow(1, NOW, "scheduled", "fired", 7, None, NOW + DAY, None)
    told = answers.firing(row)
    assert (told.job_id, told.job_state, told.fired_at_ms) == ("7", None, to_ms(NOW + DAY))
    miss = answers.miss(MissRow(NOW, NOW + DAY, 2, NOW + 2 * DAY))
    assert (miss.instants, miss.last_instant_ms) == (2, to_ms(NOW + DAY))
