"""What a schedule may say, and what the job of one firing finds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.errors import Invalid, TooLarge
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.submitting.spec import Submission
from holdfast.rules.schedules.checks import (
    check_schedule_name,
    check_template,
    complete_terms,
    submission_at,
)
from holdfast.rules.submitting.submission import parse_inputs, parse_spec

NOW = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)


def a_job(**fields: Any) -> Submission:
    return Submission(parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "cron"),
        ({"cron": "* * * * *", "every": 5.0}, "cron"),
        ({"cron": "* * *"}, "cron"),
        ({"cron": "0 0 1 1 * " + " " * 300}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0 0 * * *", "tz": "Nowhere"}, "tz"),
        ({"every": 0.5}, "every"),
        ({"every": float("nan")}, "every"),
        ({"every": 1e9}, "every"),
        ({"every": 5.0, "jitter": -1.0}, "jitter"),
        ({"every": 5.0, "jitter": 1e6}, "jitter"),
        ({"every": 5.0, "late_max": 0.0}, "late_max"),
        ({"every": 5.0, "catch_up_max": 0}, "catch_up_max"),
        ({"every": 5.0, "catch_up_max": 101}, "catch_up_max"),
        ({"every": 5.0, "start_at": datetime(2026, 1, 1)}, "start_at"),
        ({"every": 5.0, "end_at": datetime(1969, 1, 1, tzinfo=UTC)}, "end_at"),
        ({"every": 5.0, "start_at": NOW, "end_at": NOW - timedelta(days=1)}, "end_at"),
    ],
)  # fmt: skip
def test_terms_that_cannot_hold_are_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises((Invalid, TooLarge)) as refused:
        complete_terms(ScheduleTerms(**fields), NOW)
    assert refused.value.field == field


def test_an_interval_counts_from_the_second_it_was_made_unless_told() -> None:
    made = complete_terms(ScheduleTerms(every=5.0), NOW)
    assert made.start_at == NOW.replace(microsecond=0)
    assert complete_terms(made, NOW + timedelta(days=1)) == made
    assert complete_terms(ScheduleTerms(cron="0 0 * * *"), NOW).start_at is None


@pytest.mark.parametrize("name", ["nightly", "app.jobs:nightly", "team/a@b-c", "_x", "über"])
def test_names_of_functions_and_more_are_names(name: str) -> None:
    check_schedule_name(name)


@pytest.mark.parametrize("name", ["", " a", "a b", "a\n", "-a", "a" * 201, "a\x00"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises((Invalid, TooLarge)) as refused:
        check_schedule_name(name)
    assert refused.value.field == "name"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"idempotency_key": "k"}, "spec.idempotency_key"),
        ({"not_before": 5.0}, "spec.not_before"),
        ({"expires_at": 5.0}, "spec.expires_at"),
        ({"depends_on": ["5"]}, "spec.depends_on"),
        ({"chain": "c"}, "spec.chain"),
    ],
)
def test_what_cannot_be_repeated_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid, match="leave it out") as refused:
        check_template(a_job(**fields), tasks_max=10)
    assert refused.value.field == field


def test_a_firing_is_one_transaction_and_so_is_its_job() -> None:
    job = Submission(parse_spec({"entrypoint": {"function": "a:b"}}), parse_inputs([1, 2, 3]))
    check_template(job, tasks_max=3)
    with pytest.raises(TooLarge):
        check_template(job, tasks_max=2)


def test_a_job_finds_out_which_firing_it_is_of() -> None:
    template = a_job(environment={"A": "1"}, labels={"team": "x"})
    made = submission_at(template, "nightly", NOW.replace(microsecond=0))
    assert made.spec.environment == {
        "A": "1",
        "HOLDFAST_SCHEDULE": "nightly",
        "HOLDFAST_SCHEDULED_AT": "2026-01-01T12:00:00Z",
    }
    assert made.spec.labels == {"schedule": "nightly", "team": "x"}
    assert made.actor == "schedule:nightly"
    assert submission_at(a_job(labels={"schedule": "mine"}), "s", NOW).spec.labels == {
        "schedule": "mine"
    }
