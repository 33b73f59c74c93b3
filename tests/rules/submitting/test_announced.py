"""The options of announced functions: after what the job says, and before what its type says."""

from typing import Any

import msgspec
import pytest

from holdfast.model.submitting.policies import PolicyDefaults, TypePolicy
from holdfast.model.submitting.spec import JobSpec, Limits, Submission
from holdfast.model.workers.functions import FunctionOptions
from holdfast.rules.submitting.announced import add_announced
from holdfast.rules.submitting.submission import complete_submission, parse_spec


def added(options: dict[str, Any], *, inputs: int = 0, **fields: Any) -> JobSpec:
    """Give what becomes of a job's spec where its function was announced with options."""
    links = {name: fields.pop(name) for name in ("is_placed", "replay_of") if name in fields}
    spec = parse_spec({"entrypoint": {"function": "app:work"}} | fields)
    submission = Submission(spec, ("1",) * inputs if inputs else None, **links)
    return add_announced(submission, {"app:work": msgspec.convert(options, FunctionOptions)})


OPTIONS: dict[str, Any] = {
    "queue": "mail",
    "type": "letters",
    "max_retries_failure": 3,
    "backoff": {"base": 2.0},
    "timeout": 9.0,
    "labels": {"a": "b"},
    "replicas": 2,
}


def test_what_the_job_leaves_out_is_added() -> None:
    spec = added(OPTIONS)
    for name in OPTIONS:
        assert getattr(spec, name) == getattr(msgspec.convert(OPTIONS, FunctionOptions), name)


def test_what_the_job_says_counts() -> None:
    own: dict[str, Any] = {"queue": "q", "max_retries_failure": 0, "labels": {"c": "d"}}
    spec = added(OPTIONS, **own)
    assert {name: getattr(spec, name) for name in own} == own
    assert spec.type == "letters"


def test_attempts_that_the_job_counts_leave_no_room_for_retries() -> None:
    assert added(OPTIONS, max_attempts=1).max_retries_failure is None


def test_one_task_per_input_leaves_no_room_for_replicas() -> None:
    assert added(OPTIONS, inputs=2).replicas is None


def test_with_a_key_the_owner_is_not_what_was_announced() -> None:
    options = {"owner": "team", "timeout": 9.0}
    free, keyed = added(options), added(options, idempotency_key="k")
    assert [(spec.owner, spec.timeout) for spec in (free, keyed)] == [("team", 9.0), (None, 9.0)]


@pytest.mark.parametrize("own", [{"is_placed": True}, {"resources": {"cpu": 1.0}}])
def test_a_job_that_is_to_be_placed_gets_no_queue(own: dict[str, Any]) -> None:
    spec = added(OPTIONS, **own)
    assert (spec.queue, spec.timeout) == (None, 9.0)


def test_a_job_that_names_a_queue_asks_nothing_of_placed_workers() -> None:
    options = {"resources": {"gpu": 1}, "requirements": ["numpy"], "timeout": 9.0}
    placed, queued = added(options), added(options, queue="q")
    assert placed.resources is not None
    assert (queued.resources, queued.requirements, queued.timeout) == (None, [], 9.0)


def test_other_jobs_and_those_of_jobs_stay_as_they_are() -> None:
    assert added(OPTIONS, replay_of=7).queue is None
    assert added(OPTIONS, entrypoint={"function": "app:other"}).queue is None
    assert added(OPTIONS, entrypoint={"shell": "app:work"}).queue is None


def test_options_come_before_the_policy_and_a_repeat_is_known_without_either() -> None:
    asked = Submission(parse_spec({"entrypoint": {"function": "app:work"}}))
    defaults = PolicyDefaults(max_retries_failure=7, grace=1.0)
    announced = {"app:work": msgspec.convert(OPTIONS, FunctionOptions)}
    done = complete_submission(
        asked, Limits(), {"letters": TypePolicy(defaults)}, announced=announced
    )
    assert (done.spec.max_retries_failure, done.spec.grace) == (3, 1.0)
    assert done.plain == complete_submission(asked, Limits()).spec


def test_options_of_one_queue_count_for_jobs_that_name_it() -> None:
    options = OPTIONS | {"only_in_queue": True}
    assert added(options, queue="mail").timeout == 9.0
    for own in ({}, {"queue": "other"}, {"is_placed": True}):
        plain = added({}, **own)
        assert added(options, **own) == plain, own
