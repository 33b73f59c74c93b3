"""What a job says of the terms under which it was submitted, and what `explain` says of them."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast.api.convert import say_time, to_ms
from holdfast.api.job_terms import describe_terms, show_terms
from holdfast.model.work.states import TaskState
from holdfast.operations.schedules.fire import fire_due
from holdfast.store.reads.work.terms import TermsRow
from tests.api.face import Face
from tests.api.rows import LATER, NOW, a_job, a_task
from tests.timetable import HOUR, Timetable, at
from tests.world import World

JOB: dict[str, Any] = {"entrypoint": {"function": "app:work", "args": [1]}, "queue": "q"}
PLAIN = msgspec.json.encode(JOB).decode()
PENDING = {"pending": 1, "spec": PLAIN}


def unique_job(**rule: Any) -> str:
    return msgspec.json.encode(JOB | {"unique": {"states": ["pending"]} | rule}).decode()


@pytest.mark.parametrize(
    ("rule", "by"),
    [
        ({}, "all that it is called with"),
        ({"arguments": []}, "its type"),
        ({"arguments": ["args[0]", "kwargs.a"], "owner": True}, "args[0], kwargs.a, for its owner"),
        ({"values": ["secret"], "period": 60.0}, "values that were given, once in 60 s"),
    ],
)
def test_what_is_compared_is_named_without_its_value(rule: dict[str, Any], by: str) -> None:
    terms = show_terms(a_job(spec=unique_job(**rule)), TermsRow(), shows_key=True)
    assert terms is not None
    assert terms.unique is not None
    assert terms.unique.by == by


def test_the_key_is_for_those_who_may_see_arguments() -> None:
    """Who guesses the arguments could compare."""
    job, row = a_job(spec=unique_job()), TermsRow(unique_key="ab12")
    for shows_key, key, said in ((True, "ab12", "It holds key ab12."), (False, None, "its key.")):
        terms = show_terms(job, row, shows_key=shows_key)
        assert terms is not None
        assert terms.unique is not None
        assert (terms.unique.key, terms.unique.holds_key) == (key, True)
        [line] = describe_terms(terms, row, a_task())
        assert line.endswith(said)


def test_a_job_expires_as_long_as_something_of_it_waits() -> None:
    row = TermsRow(expires_at=LATER)
    terms = show_terms(a_job(**PENDING), row, shows_key=True)
    assert terms is not None
    assert terms.expires_at_ms == to_ms(LATER)
    said = f"It expires if nobody has started it by {say_time(LATER)}."
    assert describe_terms(terms, row, a_task()) == [said]
    assert describe_terms(terms, row, a_task(attempt=1)) == []
    assert describe_terms(terms, row, a_task(state=TaskState.RUNNING)) == []
    assert show_terms(a_job(spec=PLAIN), row, shows_key=True) is None
    assert show_terms(a_job(**PENDING, cancel_mode="soft"), row, shows_key=True) is None


def test_a_job_of_a_schedule_says_which_instant_it_is_for() -> None:
    row = TermsRow(schedule="nightly", instant=NOW, kind="caught_up")
    terms = show_terms(a_job(spec=PLAIN), row, shows_key=True)
    [line] = describe_terms(terms, row, a_task())
    assert line == f"Its job is that of schedule nightly for {say_time(NOW)}, caught up."


async def test_terms_are_shown_and_explained(quiet_face: Face) -> None:
    said = await quiet_face.post("/api/jobs", JOB | {"unique": {}, "expires": 3600})
    job_id = said.json["job_id"]
    job = (await quiet_face.get(f"/api/jobs/{job_id}")).json
    assert job["terms"]["expires_at_ms"] == job["submitted_at_ms"] + 3_600_000
    unique = job["terms"]["unique"]
    assert (unique["states"], unique["holds_key"]) == (["pending", "running"], True)
    lines = (await quiet_face.get(f"/api/tasks/{job_id}.0/explain")).json["lines"]
    assert any(line.startswith("It expires if nobody has started it by ") for line in lines)
    [line] = [line for line in lines if "unique" in line]
    assert "while it is pending or running" in line
    assert line.endswith(f"It holds key {unique['key']}.")
    await quiet_face.post(f"/api/jobs/{job_id}:cancel", {"reason": "no need"})
    job = (await quiet_face.get(f"/api/jobs/{job_id}")).json
    assert job["terms"]["unique"]["holds_key"] is False
    lines = (await quiet_face.get(f"/api/tasks/{job_id}.0/explain")).json["lines"]
    assert any(line.endswith("It has let go of its key.") for line in lines)


async def test_a_job_of_a_schedule_leads_to_it(quiet_face: Face, world: World) -> None:
    timetable = Timetable(world)
    midnight = at("2030-01-01T00:00")
    await timetable.go_to(midnight + timedelta(seconds=0.5))
    await timetable.set("nightly", cron="0 1 * * *")
    await timetable.go_to(midnight + HOUR)
    await fire_due(timetable.ledger)
    [firing] = await timetable.firings("nightly")
    job = (await quiet_face.get(f"/api/jobs/{firing.job_id}")).json
    assert job["terms"]["firing"] == {
        "schedule": "nightly",
        "instant_ms": to_ms(midnight + HOUR),
        "kind": "scheduled",
    }
    lines = (await quiet_face.get(f"/api/tasks/{firing.job_id}.0/explain")).json["lines"]
    assert "Its job is that of schedule nightly for 2030-01-01T01:00:00Z." in lines
