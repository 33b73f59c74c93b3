"""The spec's shape: immutable, without surprises, the same after a trip through JSON."""

import msgspec
import pytest

from holdfast.model.submitting.spec import (
    Backoff,
    Entrypoint,
    JobSpec,
    Limits,
    Submission,
    TaskTerms,
)

SPEC = JobSpec(Entrypoint(function="a:b"))


@pytest.mark.parametrize("value", [SPEC, SPEC.entrypoint, SPEC.backoff, Limits()], ids=repr)
def test_a_spec_cannot_be_changed(value: msgspec.Struct) -> None:
    with pytest.raises(AttributeError):
        setattr(value, value.__struct_fields__[0], None)


@pytest.mark.parametrize(
    ("submission", "tasks"),
    [
        (Submission(SPEC), 1),
        (Submission(msgspec.structs.replace(SPEC, replicas=7)), 7),
        (Submission(SPEC, ("1", "2")), 2),
    ],
)
def test_a_submission_knows_how_many_tasks_it_makes(submission: Submission, tasks: int) -> None:
    assert submission.num_tasks == tasks


def test_what_was_not_said_is_not_written() -> None:
    assert msgspec.json.encode(SPEC) == b'{"entrypoint":{"function":"a:b"}}'


def test_a_spec_reads_back_from_its_json() -> None:
    spec = JobSpec(
        Entrypoint(command=["ls", "-l"]),
        queue="q",
        labels={"a": "b"},
        backoff=Backoff(1.0, 3.0, 9.0),
        on_exhausted="fail",
        not_before=1.5,
    )
    assert msgspec.json.decode(msgspec.json.encode(spec), type=JobSpec) == spec


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.json.decode(b'{"entrypoint":{"shell":"ls"},"colour":"red"}', type=JobSpec)


def test_every_spec_has_collections_of_its_own() -> None:
    first, second = JobSpec(Entrypoint(shell="a")), JobSpec(Entrypoint(shell="a"))
    first.labels["a"] = "b"
    assert second.labels == {}


@pytest.mark.parametrize(("queue", "placed"), [(None, True), ("q", False)])
def test_work_without_a_queue_is_placed(queue: str | None, placed: bool) -> None:
    terms = TaskTerms(queue, 0, 0, 0, Backoff(), "fail", None, None, "kill", 30.0, 30.0, "t")
    assert terms.placed == placed


def test_leases_last_thirty_to_a_hundred_and_twenty_seconds_unless_widened() -> None:
    limits = Limits()
    assert (limits.lease_seconds_min, limits.lease_seconds_max) == (30.0, 120.0)
