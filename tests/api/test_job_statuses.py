"""Jobs as they are shown: in a line, in the words of the protocol, and with what they add up to."""

import pytest

from holdfast.api.job_statuses import job_status
from holdfast.model.work.states import TaskState
from holdfast.store.reads.work.totals import JobTotals
from holdfast.wire.status import BuildMetrics, ResourceUsage
from tests.api.rows import LATER, NOW, a_job

TOTALS = JobTotals(
    2, 1, 1.5, 4096, 3, "rlimit", 10.0, 1.0, 7, True, 5.0, False, '{"0/rpc":7001}', "[1,  2]"
)  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"running": 2, "pending": 1}, "Tasks: 3 total, 2 running, 1 pending"),
        ({"pending": 3}, "Tasks: 3 total, 3 pending"),
        (
            {"succeeded": 1, "worker_failed": 1, "dead_lettered": 1},
            "Tasks: 3 total, 1 succeeded, 1 worker failed, 1 dead lettered",
        ),
        (
            {"assigned": 1, "building": 1, "running": 1},
            "Tasks: 3 total, 1 running, 1 building, 1 assigned",
        ),
    ],
)
def test_a_job_is_summed_up_in_a_line(counts: dict[str, int], message: str) -> None:
    assert job_status(a_job(**counts)).status_message == message


def test_a_job_is_told_in_the_words_of_the_protocol() -> None:
    told = job_status(
        a_job(
            state=TaskState.SUCCEEDED,
            succeeded=3,
            started_at=NOW,
            finished_at=LATER,
            parent_job_id=7,
            replay_of=8,
            labels='{"team":"search"}',
            spec='{"entrypoint":{"shell":"make"}}',
        )
    )
    assert (told.job_id, told.parent_job_id, told.replay_of) == ("4182", "7", "8")
    assert told.state == "JOB_STATE_SUCCEEDED"
    assert told.labels == {"team": "search"}
    assert told.spec == {"entrypoint": {"shell": "make"}}
    assert told.is_gang is False
    assert job_status(a_job(spec='{"coscheduling":{}}')).is_gang is True
    assert job_status(a_job()).is_gang is None
    assert told.submitted_at_ms == told.started_at_ms == 1_772_366_400_000
    assert told.finished_at_ms == 1_772_366_490_000
    assert told.tasks_succeeded == told.num_tasks == 3
    assert told.tasks is None
    assert (told.failure_count, told.ports, told.resource_usage, told.is_new) == (None,) * 4
    assert bytes(told.serialized_result) == b"null"


def test_what_tasks_add_up_to_is_told_where_it_is_known() -> None:
    told = job_status(a_job(), totals=TOTALS)
    assert (told.failure_count, told.preemption_count, told.ports) == (2, 1, {"0/rpc": 7001})
    assert told.resource_usage == ResourceUsage(
        cpu_seconds=1.5, memory_peak_bytes=4096, processes_max=3, limits="rlimit"
    )
    assert told.build_metrics == BuildMetrics(
        fetch_ms=10.0,
        unpack_ms=1.0,
        bytes=7,
        bundle_cached=True,
        environment_ms=5.0,
        environment_cached=False,
    )
    assert bytes(told.serialized_result) == b"[1,  2]"
    nothing = job_status(a_job(), totals=JobTotals())
    assert (nothing.failure_count, nothing.ports, nothing.resource_usage) == (0, {}, None)
    assert nothing.build_metrics is None
