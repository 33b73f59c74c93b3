"""Real workers fill a version, by functions and commands, claimed and placed; it is cut over."""

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.e2e.dataset_tasks import contradict, look, write_in_a_process, write_part
from tests.e2e.system import eventually, running
from tests.e2e.test_kills import check_ledger
from tests.test_guides import free_port

SECONDS_MAX = 90
TASKS = ("--import", "tests.e2e.dataset_tasks")
SAY = (
    """echo '{"partition_key": "%s", "uri": "v'$HOLDFAST_OUTPUT_VERSION'"}' >> $HOLDFAST_OUTPUTS"""
)
PARTS = [f"part-{n}" for n in range(5)]


def test_a_version_is_filled_by_real_workers_and_cut_over(tmp_path: Path) -> None:
    with running(tmp_path, free_port()) as system, system.client() as client:
        system.start_worker(*TASKS, "--allow-commands", "--placed", "--cpu", "2")
        events = client.create_dataset("events", {"owner": "ann"})
        version = events.open_version()
        events.on_cut_over("look", look)
        jobs: list[hf.Job[Any]] = [
            write_part.map(PARTS),
            write_in_a_process.submit(),
            client.run_command(SAY % "claimed", queue="e2e", outputs=[hf.Output("events")]),
            client.run_command(SAY % "placed", queue=None, outputs=[hf.Output("events")]),
            write_part.with_options(queue=None).submit("placed-part"),
        ]
        for job in jobs:
            assert job.wait(SECONDS_MAX).state == "JOB_STATE_SUCCEEDED", list(job.logs())
        assert jobs[0].results() == [version.number] * len(PARTS)
        _see_refusals(client)
        assert events.cut_over(version.number).triggered == 1
        found = {entry.key: entry for entry in events.current().entries()}
        assert found.keys() == {*PARTS, "process", "claimed", "placed", "placed-part"}
        assert {found[key].uri for key in ("claimed", "placed")} == {"v1"}
        assert (found["part-0"].uri, found["part-0"].attempt) == ("s3://events/1/part-0", 1)
        [trigger] = events.triggers()
        started = eventually(lambda: events.triggers()[0].last_job_id)
        assert client.job(started).wait(SECONDS_MAX).state == "JOB_STATE_SUCCEEDED"
        assert (trigger.name, events.cut_overs()[0].version) == ("look", 1)
        check_ledger(system)


def _see_refusals(client: hf.Client) -> None:
    """An attempt whose outputs are refused has failed by that, whoever has run it."""
    bad = client.run_command("echo nonsense > $HOLDFAST_OUTPUTS", queue=None, outputs=EVENTS)
    unknown = client.run_command(SAY % "process", queue=None, outputs=EVENTS)
    for job, problem in (
        (contradict.submit(), "has another entry under 'process'"),
        (bad, "HOLDFAST_OUTPUTS line 1"),
        (unknown, "has another entry under 'process'"),
    ):
        with pytest.raises(hf.TaskFailed, match=problem):
            job.result(timeout=SECONDS_MAX)
        [event] = [each for each in job.events() if each.type == "failed" and each.attempt >= 0]
        assert event.cause == "PermanentError"


EVENTS = [hf.Output("events")]
