"""Owners have no more live tasks than they may: counted by Postgres, and by what came since."""

import asyncio

import msgspec
import pytest

from holdfast.errors import KeyReused, LimitReached
from holdfast.ledger import quotas
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.model.submitting.spec import Entrypoint, JobSpec, Submission
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.submitting.submit import submit, submit_one
from tests.world import World


@pytest.fixture
def refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Five live tasks for each owner, counted whenever it matters; what was refused is noted."""
    monkeypatch.setattr(quotas, "COUNT_SECONDS_MIN", 0.0)
    noted: list[str] = []
    ledger.quotas.keep_to(ServerLimits(live_tasks_max=5), noted.append)
    return noted


def work(owner: str, tasks: int) -> Submission:
    spec = JobSpec(entrypoint=Entrypoint(function="a:b"), queue="q", owner=owner, replicas=tasks)
    return Submission(spec)


async def test_one_task_too_many_is_refused_and_others_are_taken_in(
    ledger: Ledger, refused: list[str]
) -> None:
    first, over, other, fits = await submit(
        ledger, [work("ann", 4), work("ann", 2), work("bob", 5), work("ann", 1)]
    )
    assert isinstance(over, LimitReached)
    assert not isinstance(first, Exception)
    assert not isinstance(other, Exception)
    assert not isinstance(fits, Exception)
    text = str(over)
    assert text.startswith("live_tasks_max: 5 ")
    assert "owner ann" in text
    assert "--live-tasks-max (HOLDFAST_LIVE_TASKS_MAX)" in text
    assert refused == ["live_tasks_max"]


async def test_what_has_ended_makes_room_at_once(
    world: World, ledger: Ledger, refused: list[str]
) -> None:
    job = await submit_one(ledger, work("ann", 5))
    with pytest.raises(LimitReached):
        await submit_one(ledger, work("ann", 1))
    await world.cancel_job(job.job_id)
    await submit_one(ledger, work("ann", 5))
    with pytest.raises(LimitReached):
        await submit_one(ledger, work("ann", 1))


async def test_what_arrives_at_once_is_counted_before_it_is_stored(
    ledger: Ledger, refused: list[str]
) -> None:
    await submit_one(ledger, work("bob", 1))  # partitions are there now, which one at a time makes
    made = await asyncio.gather(
        *(submit_one(ledger, work("ann", 1)) for _ in range(12)), return_exceptions=True
    )
    taken = [answer for answer in made if not isinstance(answer, BaseException)]
    over = [answer for answer in made if isinstance(answer, LimitReached)]
    assert (len(taken), len(over), len(refused)) == (5, 7, 7), made


async def test_graphs_and_what_runs_again_are_held_to_it(
    world: World, ledger: Ledger, refused: list[str]
) -> None:
    with pytest.raises(LimitReached):
        await submit_batch(ledger, [work("ann", 3), work("ann", 3)])
    [job] = await submit_batch(ledger, [work("ann", 3)])
    await world.cancel_job(job.job_id)
    again = await rerun(
        ledger, job.job_id, actor="ann", only_unsuccessful=False, dry_run=False, keyed=None
    )
    assert again.num_tasks == 3
    with pytest.raises(LimitReached):
        await rerun(
            ledger, job.job_id, actor="ann", only_unsuccessful=False, dry_run=False, keyed=None
        )


async def test_a_repeat_under_its_key_takes_no_room(ledger: Ledger, refused: list[str]) -> None:
    def keyed(key: str, tasks: int) -> Submission:
        item = work("ann", tasks)
        spec = msgspec.structs.replace(item.spec, idempotency_key=key)
        return msgspec.structs.replace(item, spec=spec)

    first = await submit_one(ledger, keyed("a", 2))
    both = await submit_batch(ledger, [keyed("a", 2), keyed("b", 3)])
    assert [each.is_new for each in both] == [False, True]
    again = await submit_one(ledger, keyed("a", 2))
    assert (again.job_id, again.is_new) == (first.job_id, False)
    assert [each.is_new for each in await submit_batch(ledger, [keyed("a", 2), keyed("b", 3)])] == [
        False,
        False,
    ]
    with pytest.raises(KeyReused):
        await submit_one(ledger, keyed("a", 3))
    assert refused == []
    with pytest.raises(LimitReached):
        await submit_one(ledger, keyed("c", 1))
    with pytest.raises(LimitReached):
        await submit_batch(ledger, [keyed("a", 2), keyed("c", 1)])
    [repeat, over] = await submit(ledger, [keyed("a", 2), keyed("c", 1)])
    assert not isinstance(repeat, Exception)
    assert isinstance(over, LimitReached)


async def test_another_server_is_noticed_by_the_next_count(
    ledger: Ledger, refused: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Ledger(ledger.database)
    await submit_one(elsewhere, work("ann", 5))
    await submit_one(ledger, work("ann", 1))  # it has not looked yet
    monkeypatch.setattr(quotas, "CALM_SECONDS", 0.0)
    await ledger.quotas.look()
    assert ledger.quotas.largest() == 6
    with pytest.raises(LimitReached):
        await submit_one(ledger, work("ann", 1))


async def test_without_a_limit_nobody_counts(ledger: Ledger) -> None:
    ledger.quotas.keep_to(ServerLimits(live_tasks_max=0), lambda _: None)
    await submit_one(ledger, work("ann", 100))
    await ledger.quotas.look()
    assert ledger.quotas.largest() == 0


async def test_who_has_too_much_in_store_submits_no_more(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []
    limits = ServerLimits(live_tasks_max=0, stored_bytes_max=3000)
    ledger.quotas.keep_to(limits, noted.append)
    text = '"' + "x" * 1500 + '"'
    large = Submission(msgspec.structs.replace(work("ann", 1).spec, replicas=None), (text,))
    await submit_one(ledger, large)
    with pytest.raises(LimitReached, match=r"stored_bytes_max: 3,000 .*owner ann") as refused:
        await submit_one(ledger, msgspec.structs.replace(large, inputs=(text, text)))
    assert refused.value.retry_after == 60
    assert noted == ["stored_bytes_max"]
    await submit_one(ledger, work("bob", 1))
    await ledger.quotas.look()
    assert 0 < ledger.quotas.stored.of("bob") < ledger.quotas.stored.of("ann")
    assert ledger.quotas.stored.largest() == ledger.quotas.stored.of("ann")
