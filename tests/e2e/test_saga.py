"""Sagas across kill -9 of the server: everything undone, once each, in reverse order."""

import random
import sys
import time
from functools import partial
from pathlib import Path

import psycopg
import pytest

import holdfast as hf
from tests.e2e.system import System, eventually, kill, running
from tests.e2e.tasks import take_step
from tests.e2e.test_kills import check_ledger
from tests.test_guides import free_port

STEPS = "abcde"
UNDOING = "jobs where compensates_job_id is not null"
COMPENSATIONS = sum(range(1, len(STEPS) + 1))


def submit_saga(folder: Path, fails: str) -> hf.Graph:
    """Submit five steps, each after the one before it, of which one will fail."""
    folder.mkdir()
    with hf.graph() as graph:
        for name in STEPS:
            before = graph.jobs[-1:]
            step = take_step.with_options(depends_on=before)
            step.submit(folder=str(folder), name=name, fails=name == fails)
    return graph


def count(system: System, what: str) -> int:
    """Count the rows that something is true of."""
    with psycopg.connect(system.database_url) as connection:
        row = connection.execute(f"select count(*) from holdfast.{what}").fetchone()
    assert row is not None
    return int(row[0])


def has_compensations(system: System, wanted: int) -> bool:
    """Tell whether so many compensations have been submitted."""
    return count(system, UNDOING) >= wanted


def compensated(system: System, graph: hf.Graph) -> list[str]:
    """Name the steps of a saga that are told to have been compensated, in the order of that."""
    names = {int(job.id): name for job, name in zip(graph.jobs, STEPS, strict=True)}
    with psycopg.connect(system.database_url) as connection:
        rows = connection.execute(
            "select job_id from holdfast.events where type = 'compensated' and job_id = any(%s) "
            "order by ts, id",
            [list(names)],
        ).fetchall()
    return [names[row[0]] for row in rows]


def run_sagas(folder: Path, *, kills: int, seed: int) -> None:
    """Let a saga fail at each of its steps while the server is killed, again and again."""
    chance = random.Random(seed)
    with running(folder, free_port()) as system, system.client():
        system.start_worker("--concurrency", "5")
        sagas = {name: submit_saga(folder / name, name) for name in STEPS}
        for wanted in sorted(chance.choices(range(COMPENSATIONS + 1), k=kills)):
            eventually(partial(has_compensations, system, wanted))
            time.sleep(chance.random() * 0.05)  # anywhere between two of them
            kill(system.server)
            system.start_server()
        told = "events where type = 'compensated'"
        eventually(lambda: count(system, told) == COMPENSATIONS)
        eventually(lambda: not count(system, "outbox"))
        assert count(system, UNDOING) == COMPENSATIONS
        for name, graph in sagas.items():
            before = STEPS[: STEPS.index(name)]
            order = [name, *reversed(before)]
            assert compensated(system, graph) == order
            notes = (folder / name / "undone").read_text().splitlines()
            done = [f"{step} {step} done" for step in reversed(before)]
            assert notes == [f"{name} PermanentError: {name}", *done]
        check_ledger(system)


@pytest.mark.nightly
def test_sagas_are_undone_across_kills_of_the_server(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    sys.stdout.write(f"seed {seed}\n")  # seen if it fails
    run_sagas(tmp_path, kills=2, seed=seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_sagas_are_undone_across_many_kills_of_the_server(tmp_path: Path, seed: int) -> None:
    run_sagas(tmp_path, kills=12, seed=seed)
