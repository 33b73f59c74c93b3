"""A few tasks are given to who waits for them, by the call that stores them, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.submitting.spec import Submission
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.register import Registration, register
from holdfast.operations.submitting.submit import submit
from holdfast.operations.upkeep.partitions import keep_partitions_ahead
from tests.audits import assert_audit_is_silent
from tests.operations.submitting.test_at_once import a_job
from tests.world import World

NEXT = ClaimRequest("w1", ("q",), 2, idempotency_key="k", start=True)


class Poller:
    """One who waits for work of a queue."""

    def __init__(self, request: ClaimRequest = NEXT) -> None:
        self.request = request
        self.given: list[Claim] | None = None
        self.num_borrowed = 0

    def give(self, claims: list[Claim]) -> None:
        self.given = claims

    @contextmanager
    def borrow(self, queue: str) -> Iterator["Poller | None"]:
        """Lend the claim, if it is for the queue."""
        self.num_borrowed += queue in self.request.queues
        yield self if queue in self.request.queues else None


@pytest.fixture
async def poller(ledger: Ledger, world: World) -> Poller:
    """Somebody who waits at a ledger that has looked at its partitions."""
    await keep_partitions_ahead(ledger)
    poller = Poller()
    ledger.lending = poller
    return poller


async def test_who_waits_is_given_what_is_stored_in_one_transaction(
    ledger: Ledger, world: World, poller: Poller
) -> None:
    heard: list[News] = []
    ledger.on_commit = heard.append
    [answer] = await submit(ledger, [a_job(("1", "2", "3"))])
    assert not isinstance(answer, Exception)
    assert poller.given is not None
    tasks = [
        (claim.task_id.job_id, claim.task_id.task_index, claim.started) for claim in poller.given
    ]
    assert tasks == [(answer.job_id, 0, True), (answer.job_id, 1, True)]
    ready = [job.ready for news in heard for job in news.stored_jobs]
    assert ready == [1], "the others are told of what is left alone"
    [row] = await world.clock.fetch(
        "select ready.xmin = leases.xmin as is_one from holdfast.ready, holdfast.leases limit 1"
    )
    assert row["is_one"], "stored and leased in one transaction"
    assert [claim.input for claim in await world.claim(5)] == ["3"]
    await assert_audit_is_silent(ledger.database)


async def test_who_came_first_in_line_goes_first(
    ledger: Ledger, world: World, poller: Poller
) -> None:
    ledger.lending, waits = Poller(ClaimRequest("w2", ("other",))), ledger.lending
    [first] = await submit(ledger, [a_job()])
    ledger.lending = waits
    [second] = await submit(ledger, [a_job(("1", "2"))])
    assert not isinstance(first, Exception)
    assert not isinstance(second, Exception)
    assert poller.given is not None
    assert [claim.task_id.job_id for claim in poller.given] == [first.job_id, second.job_id]


@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param([a_job(replicas=11)], id="many"),
        pytest.param([a_job(), a_job(queue="other")], id="of several queues"),
        pytest.param([a_job(queue=None)], id="placed"),
        pytest.param([a_job(not_before=4e9)], id="later"),
    ],
)
async def test_what_is_not_for_one_poller_at_once_is_told_of(
    ledger: Ledger, poller: Poller, jobs: list[Submission]
) -> None:
    answers = await submit(ledger, jobs)
    assert not any(isinstance(answer, Exception) for answer in answers)
    assert poller.num_borrowed == 0


async def test_a_queue_whose_tasks_are_measured_is_told_of(ledger: Ledger, poller: Poller) -> None:
    ledger.sized_queues.add("q")
    await submit(ledger, [a_job()])
    assert poller.num_borrowed == 0


async def test_a_claim_in_the_way_does_not_keep_a_job_from_being_stored(
    ledger: Ledger, world: World, poller: Poller
) -> None:
    await submit(ledger, [a_job()])
    assert poller.given
    poller.given = None
    # The same key again: the claim cannot go along, and has to ask by itself what it was given.
    [answer] = await submit(ledger, [a_job()])
    assert not isinstance(answer, Exception)
    assert poller.given is None
    assert await world.count("ready") == 1
    await assert_audit_is_silent(ledger.database)


async def test_a_poller_with_much_room_is_given_what_is_stored_and_finds_it_again(
    ledger: Ledger, world: World, poller: Poller
) -> None:
    await submit(ledger, [a_job(queue="other")])
    poller.request = NEXT._replace(queues=("other", "q"), max_tasks=500)
    await submit(ledger, [a_job()])
    assert poller.given is not None
    assert len(poller.given) == 1, "no more than is stored: the other is found by a claim"
    [again] = await claim(ledger, [poller.request])
    assert not isinstance(again, Exception)
    assert [each.lease_token for each in again] == [each.lease_token for each in poller.given]
    assert await world.count("leases") == 1


async def test_a_repeat_gives_nothing_twice(ledger: Ledger, world: World, poller: Poller) -> None:
    job = a_job(idempotency_key="j")
    [first] = await submit(ledger, [job])
    poller.request = NEXT._replace(idempotency_key="another")
    poller.given = None
    [again] = await submit(ledger, [job])
    assert not isinstance(first, Exception)
    assert not isinstance(again, Exception)
    assert (again.job_id, again.is_new) == (first.job_id, False)
    assert poller.given is None
    assert await world.count("leases") == 1


async def test_a_lost_worker_is_given_nothing(ledger: Ledger, world: World, poller: Poller) -> None:
    await register(ledger, Registration("w1", "n", "h"))
    await register(ledger, Registration("w2", "n", "h", replaces="w1"))
    [answer] = await submit(ledger, [a_job()])
    assert not isinstance(answer, Exception)
    assert poller.given is None
    assert await world.count("ready") == 1


async def test_what_goes_wrong_after_the_commit_is_not_the_submissions_fault(
    ledger: Ledger, world: World, poller: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(poller, "give", break_off)
    [answer] = await submit(ledger, [a_job()])
    assert not isinstance(answer, Exception)
    assert await world.count("leases") == 1
