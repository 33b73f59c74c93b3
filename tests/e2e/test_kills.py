"""kill -9 of any process while 2,000 tasks run: all of them end, and nothing told is lost."""

import asyncio
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.audits import assert_audit_is_silent
from tests.e2e.system import System, eventually, kill, running
from tests.e2e.tasks import kill_the_worker, note_and_wait, slowly_triple, triple
from tests.killing import kill_and_see_gone
from tests.test_guides import free_port

TASKS = 2000


def ended_tasks(system: System) -> int:
    """Count the tasks that have succeeded so far."""
    with psycopg.connect(system.database_url) as connection:
        row = connection.execute("select coalesce(sum(succeeded), 0) from holdfast.jobs").fetchone()
    assert row is not None
    return int(row[0])


def has_ended(system: System, count: int) -> bool:
    """Tell whether so many tasks have succeeded."""
    return ended_tasks(system) >= count


def count_workers(system: System) -> int:
    """Count the workers that have registered."""
    with psycopg.connect(system.database_url) as connection:
        row = connection.execute("select count(*) from holdfast.workers").fetchone()
    assert row is not None
    return int(row[0])


def attempts_of(system: System, task_id: str) -> list[tuple[int, str | None]]:
    """List how the attempts of a task ended."""
    query = (
        "select state, error from holdfast.attempts where job_id = %s and task_index = %s "
        "order by attempt"
    )
    with psycopg.connect(system.database_url) as connection:
        return list(connection.execute(query, [int(part) for part in task_id.split(".")]))


def check_ledger(system: System) -> None:
    """See that no invariant is broken."""
    asyncio.run(_audit(system.database_url))


async def _audit(url: str) -> None:
    from holdfast.store.database import Database

    async with Database(url) as database:
        await assert_audit_is_silent(database)


@pytest.mark.parametrize(
    "victim",
    [
        "postgres",
        pytest.param("worker", marks=pytest.mark.nightly),
        pytest.param("server", marks=pytest.mark.nightly),
    ],
)
def test_two_thousand_tasks_outlive_a_killed_process(victim: str, tmp_path: Path) -> None:
    with running(tmp_path, free_port()) as system, system.client():
        workers = [system.start_worker("--concurrency", "40") for _ in range(2)]
        quick, slow = triple.map(range(TASKS // 2)), slowly_triple.map(range(TASKS // 2))
        for done in (TASKS // 10, TASKS // 3):
            eventually(partial(has_ended, system, done))
            match victim:
                case "worker":
                    kill(workers.pop(0))
                    workers.append(system.start_worker("--concurrency", "40"))
                case "server":
                    kill(system.server)
                    system.start_server()
                case "postgres":
                    kill_and_see_gone(system.postgres.pid)
                    system.start_postgres()
        expected = [n * 3 for n in range(TASKS // 2)]
        assert quick.results(timeout=120) == expected
        assert slow.results(timeout=120) == expected
        check_ledger(system)


def test_another_worker_takes_over_after_the_lease(tmp_path: Path) -> None:
    with running(tmp_path, free_port()) as system, system.client():
        first = system.start_worker()
        job = note_and_wait.submit(str(tmp_path))
        eventually((tmp_path / "attempt-0").exists)
        second = system.start_worker()  # another slot: it cannot know that the first is gone
        eventually(lambda: count_workers(system) == 2)
        kill(first)
        assert job.result(timeout=60) == 1
        assert attempts_of(system, f"{job.id}.0")[0] == (7, "lease expired")
        assert second.poll() is None
        check_ledger(system)


def test_a_worker_restarted_on_the_same_host_takes_over_at_once(tmp_path: Path) -> None:
    with running(tmp_path, free_port()) as system, system.client():
        first = system.start_worker()
        job = note_and_wait.with_options(lease=120.0).submit(str(tmp_path))
        eventually((tmp_path / "attempt-0").exists)
        kill(first)
        system.start_worker()
        # The lease has two minutes to go: nobody waited for it.
        assert job.result(timeout=60) == 1
        assert attempts_of(system, f"{job.id}.0")[0] == (7, "worker replaced after it was gone")
        check_ledger(system)


def test_a_task_that_kills_its_worker_ends_in_the_dead_letters_alone(tmp_path: Path) -> None:
    with running(tmp_path, free_port()) as system, system.client():
        job = kill_the_worker.submit(0)
        neighbours = slowly_triple.map(range(200))
        worker = system.start_worker("--concurrency", "20")
        eventually(lambda: job.status().finished_at_ms is not None)
        assert job.status().state == "JOB_STATE_DEAD_LETTERED"
        assert neighbours.results(timeout=120) == [n * 3 for n in range(200)]
        # The worker's process died of it once; from then on it ran in a process of its own.
        assert worker.poll() is None
        ends = attempts_of(system, f"{job.id}.0")
        states = [state for state, error in ends if error != "handed back"]
        assert states == [7, 5]
        check_ledger(system)
