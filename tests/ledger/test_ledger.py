"""One transaction per change, run again when a job ended under it, and bounded."""

from typing import Any

import pytest

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import RUNS_MAX, Ledger
from holdfast.model.submitting.spec import Limits
from holdfast.store.database import Database, JobChanged, Transaction
from tests.world import World


class PausesQueues:
    """A change that pauses a queue, and finds its job changed for the first few runs."""

    def __init__(self, bad_runs: int) -> None:
        self.bad_runs = bad_runs
        self.runs = 0

    async def __call__(self, _: Ledger, tx: Transaction, name: str) -> str:
        self.runs += 1
        await tx.connection.execute(
            "insert into holdfast.queues values ($1, holdfast.now(), 'ann')", f"{name}{self.runs}"
        )
        if self.runs <= self.bad_runs:
            raise JobChanged
        return name


async def paused(world: World) -> list[str]:
    """List the queues that a committed change has paused."""
    return [row[0] for row in await world.clock.fetch("select queue from holdfast.queues")]


async def test_a_change_is_committed_and_its_answer_returned(ledger: Ledger, world: World) -> None:
    assert await ledger.write(PausesQueues(0), "q") == "q"
    assert await paused(world) == ["q1"]


async def test_a_change_whose_job_changed_runs_again_from_the_start(
    ledger: Ledger, world: World
) -> None:
    change = PausesQueues(RUNS_MAX - 1)
    assert await ledger.write(change, "q") == "q"
    assert await paused(world) == [f"q{RUNS_MAX}"]


async def test_a_change_whose_job_keeps_changing_is_given_up(ledger: Ledger, world: World) -> None:
    change = PausesQueues(RUNS_MAX)
    with pytest.raises(Unavailable):
        await ledger.write(change, "q")
    assert change.runs == RUNS_MAX
    assert await paused(world) == []


async def test_an_error_in_a_change_undoes_it(ledger: Ledger, world: World) -> None:
    async def fail(_: Ledger, tx: Transaction) -> Any:
        await PausesQueues(0)(ledger, tx, "q")
        raise AssertionError

    with pytest.raises(AssertionError):
        await ledger.write(fail)
    assert await paused(world) == []


def test_a_ledger_has_limits_of_its_own_or_the_usual_ones() -> None:
    database = Database("postgresql://nowhere")
    assert Ledger(database).limits == Limits()
    assert Ledger(database, Limits(tasks_max=5)).limits.tasks_max == 5
