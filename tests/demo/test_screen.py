"""What the demo shows is what the events say."""

from datetime import UTC, datetime
from io import StringIO

from rich.console import Console

from holdfast.demo.screen import fold, job_table, subject, summarise
from holdfast.model.work.states import TaskState
from holdfast.wire.status import Event

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def an_event(number: int, kind: str, task_index: int = 0, attempt: int = 0) -> Event:
    return Event(
        id=number,
        job_id="7",
        task_index=task_index,
        attempt=attempt,
        seq=0,
        type=kind,
        ts=NOW,
        actor="worker",
        correlation_id="c",
    )


def test_what_happens_to_neighbours_in_the_same_way_is_one_line() -> None:
    alike = [an_event(1, "claimed", 0), an_event(2, "claimed", 1), an_event(3, "claimed", 2)]
    other = [an_event(4, "started", 3), an_event(5, "claimed", 5), an_event(6, "started", -1)]
    groups = fold([*alike, *other])
    assert [subject(group) for group in groups] == ["7.0-2", "7.3", "7.5", "7"]


def test_job_events_are_never_put_together_with_others() -> None:
    groups = fold([an_event(1, "started", -1), an_event(2, "started", 0)])
    assert [subject(group) for group in groups] == ["7", "7.0"]


def test_a_job_is_summed_up_from_its_events_alone() -> None:
    kinds = [
        ("submitted", -1, -1), ("claimed", 0, 0), ("started", -1, -1), ("started", 0, 0),
        ("placed", 1, 0), ("failed", 0, 0), ("retried", 0, 1), ("cancel_requested", -1, -1),
        ("claimed", 0, 1), ("succeeded", 0, 1), ("killed", 1, 0), ("killed", -1, -1),
    ]  # fmt: skip
    events = [an_event(number, *event) for number, event in enumerate(kinds)]
    job = summarise(7, "name", events[::-1])
    assert job.state == TaskState.KILLED
    assert job.tasks == {TaskState.SUCCEEDED: 1, TaskState.KILLED: 1}
    assert (job.attempts, job.events) == (3, len(kinds))


def test_the_table_of_jobs_fits_into_80_columns() -> None:
    events = [an_event(1, "dead_lettered", 0), an_event(2, "dead_lettered", -1)]
    job = summarise(7, "nightly-report", events)
    paper = StringIO()
    Console(file=paper, width=80).print(job_table([(job, "third time lucky")]))
    [_, line] = paper.getvalue().splitlines()
    assert line.split() == [
        "7", "nightly-report", "dead_lettered", "1", "dead_lettered", "0", "third", "time", "lucky",
    ]  # fmt: skip
