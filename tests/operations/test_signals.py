"""Signals: kept until they are waited for, heard by whoever waits, answered alike for ever."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg
import pytest

from holdfast.errors import IllegalMove, Invalid, KeyReused, LeaseConflict, NotFound, TooLarge
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.ledger.news import News
from holdfast.model.work.fence import Fence
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.ending.complete import Completion, end_reported_attempts
from holdfast.operations.signals import Sent, Waited, send_signal, wait_for_signal
from holdfast.operations.upkeep.requeue import requeue_due
from holdfast.store.database import LockTimeout
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.world import World, fence_of

WAITING = Waited("waiting")
PUT = "select holdfast.put_signal($1, 0, 'approval', '5', null, 'me')"
Answer = TypeVar("Answer")


async def be_sound(world: World) -> None:
    """Have the audit find nothing."""
    await assert_audit_is_silent(world.ledger.database)


async def insist_on(
    call: Callable[..., Awaitable[Answer]], *arguments: Any, **named: Any
) -> Answer:
    """Call again as long as somebody holds what it needs."""
    while True:
        try:
            return await call(*arguments, **named)
        except LockTimeout:
            continue


async def send(
    world: World, job_id: int, payload: str = "null", name: str = "approval", **more: Any
) -> Sent:
    """Send a signal."""
    fields = {"task_index": None, "actor": "boss"} | more
    return await send_signal(world.ledger, job_id, name=name, payload=payload, **fields)


async def ask(
    world: World,
    claim: Claim,
    name: str = "approval",
    *,
    number: int = 1,
    timeout: float | None = None,
) -> Waited:
    """Ask as a running function does."""
    return await wait_for_signal(
        world.ledger, fence_of(claim), name=name, number=number, timeout=timeout
    )


async def begin(world: World, **spec: Any) -> Claim:
    """Submit a task and claim it."""
    await world.submit(**spec)
    [mine] = await world.claim()
    await world.start(mine)
    return mine


async def park(world: World, timeout: float | None = None, **spec: Any) -> Claim:
    """Have a task whose attempt has ended to wait."""
    mine = await begin(world, **spec)
    assert await ask(world, mine, timeout=timeout) == WAITING
    assert (await world.complete(mine, "waiting")).accepted
    return mine


async def test_a_task_waits_and_the_signal_has_it_go_on_with_its_payload(world: World) -> None:
    mine = await park(world, max_retries_failure=0, max_retries_preemption=0)
    await world.pass_time(1000)
    assert await world.claim() == []
    await be_sound(world)
    sent = await send(world, mine.task_id.job_id, '{"yes": true}')
    assert sent == Sent(mine.task_id, 1, is_repeat=False)
    [again] = await world.claim()
    assert again.attempt == 1
    assert await ask(world, again) == Waited("received", '{"yes": true}')
    await world.succeed(again)
    task = await world.task(mine.task_id)
    assert (task.state, task.failure_count, task.preemption_count) == (TaskState.SUCCEEDED, 0, 0)
    await be_sound(world)


async def test_the_lease_is_released_and_every_move_has_its_event(world: World) -> None:
    mine = await park(world)
    assert not await world.clock.fetch("select from holdfast.leases")
    events = await world.clock.fetch(
        "select type, cause from holdfast.events where job_id = $1 and task_index = 0 order by seq",
        mine.task_id.job_id,
    )
    cause = "waits for signal approval"
    assert [(row[0], row[1]) for row in events][-2:] == [
        ("worker_failed", cause),
        ("retried", cause),
    ]


async def test_a_signal_that_comes_first_is_kept(world: World) -> None:
    mine = await begin(world)
    await send(world, mine.task_id.job_id, "1")
    await send(world, mine.task_id.job_id, "2")
    assert await ask(world, mine) == Waited("received", "1")
    assert await ask(world, mine, number=2) == Waited("received", "2")
    assert await ask(world, mine, number=3) == WAITING
    assert await ask(world, mine) == Waited("received", "1")
    await be_sound(world)


async def test_a_signal_between_the_question_and_the_end_is_heard(world: World) -> None:
    mine = await begin(world)
    assert await ask(world, mine) == WAITING
    await send(world, mine.task_id.job_id, "7")
    await world.complete(mine, "waiting")
    [again] = await world.claim()
    assert await ask(world, again) == Waited("received", "7")


async def test_a_signal_of_another_name_or_task_does_not_wake(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2])
    one, _ = await world.claim(2)
    assert await ask(world, one) == WAITING
    await world.complete(one, "waiting")
    await send(world, job_id, name="refusal", task_index=0)
    await send(world, job_id, task_index=1)
    await world.run_chores()
    assert await world.claim() == []
    await be_sound(world)


async def test_after_its_time_a_wait_is_over_for_good(world: World) -> None:
    mine = await park(world, timeout=60)
    await world.pass_time(50)
    assert await world.claim() == []
    await world.pass_time(11)
    [again] = await world.claim()
    assert await ask(world, again, timeout=60) == Waited("timed_out")
    await send(world, mine.task_id.job_id, "1")
    assert await ask(world, again, timeout=60) == Waited("timed_out")
    assert await ask(world, again, number=2) == Waited("received", "1")
    await be_sound(world)


async def test_a_wait_without_time_does_not_wait(world: World) -> None:
    mine = await begin(world)
    assert await ask(world, mine, timeout=0) == Waited("timed_out")


async def test_the_time_of_a_wait_goes_on_when_its_worker_is_lost(world: World) -> None:
    mine = await begin(world, max_retries_preemption=5)
    assert await ask(world, mine, timeout=100) == WAITING
    await world.pass_time(40)  # its lease runs out before it could say that it waits
    [again] = await world.claim()
    assert again.attempt == 1
    assert await ask(world, again, timeout=100) == WAITING
    await world.complete(again, "waiting")
    await world.pass_time(59)
    assert await world.claim() == []
    await world.pass_time(2)
    assert len(await world.claim()) == 1


async def test_a_signal_does_not_cut_a_retry_short(world: World) -> None:
    mine = await begin(world, max_retries_failure=3, backoff={"base": 50.0})
    assert await ask(world, mine) == WAITING
    await world.fail(mine)  # its code has caught what should have ended it
    await send(world, mine.task_id.job_id)
    await world.run_chores()
    assert await world.claim() == []
    await be_sound(world)


async def test_whichever_of_several_comes_first_has_it_go_on(world: World) -> None:
    mine = await begin(world)
    assert await ask(world, mine, "yes") == WAITING
    assert await ask(world, mine, "no", timeout=500) == WAITING
    await world.complete(mine, "waiting")
    await send(world, mine.task_id.job_id, "1", "no")
    [again] = await world.claim()
    assert await ask(world, again, "yes") == WAITING
    assert await ask(world, again, "no", timeout=500) == Waited("received", "1")


async def test_the_same_key_sends_once(world: World) -> None:
    mine = await park(world)
    job_id = mine.task_id.job_id
    first = await send(world, job_id, '{"a": 1, "b": 2}', idempotency_key="k")
    again = await send(world, job_id, '{"b":2,"a":1}', idempotency_key="k")
    assert (again, again.is_repeat) == (first._replace(is_repeat=True), True)
    with pytest.raises(KeyReused, match=r"a different signal"):
        await send(world, job_id, "2", idempotency_key="k")
    [row] = await world.clock.fetch("select count(*) from holdfast.signals")
    assert row[0] == 1
    [claim] = await world.claim()
    await world.succeed(claim)
    assert (await send(world, job_id, '{"a":1,"b":2}', idempotency_key="k")).is_repeat


async def test_what_has_ended_takes_no_signal(world: World) -> None:
    mine = await begin(world)
    await world.succeed(mine)
    with pytest.raises(IllegalMove, match=r"cannot send signal 'approval' to task \d+\.0: it is"):
        await send(world, mine.task_id.job_id)
    cancelled = await park(world)
    await world.cancel_job(cancelled.task_id.job_id)
    with pytest.raises(IllegalMove):
        await send(world, cancelled.task_id.job_id)


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_a_task_that_waits_can_be_cancelled(world: World, mode: str) -> None:
    mine = await park(world)
    await world.cancel_job(mine.task_id.job_id, mode)
    assert (await world.task(mine.task_id)).state == TaskState.KILLED
    assert await world.job_state(mine.task_id.job_id) == TaskState.KILLED
    assert not await world.clock.fetch("select from holdfast.waiting")
    await be_sound(world)


async def test_an_attempt_that_was_asked_to_stop_does_not_wait(world: World) -> None:
    mine = await begin(world)
    await world.cancel_task(mine.task_id, "soft")
    assert await ask(world, mine) == WAITING
    await world.complete(mine, "waiting")
    assert (await world.task(mine.task_id)).state == TaskState.KILLED


async def test_a_stranger_asks_for_nothing(world: World) -> None:
    mine = await begin(world)
    stranger = Fence(mine.task_id, mine.attempt, uuid4())
    with pytest.raises(LeaseConflict):
        await wait_for_signal(world.ledger, stranger, name="approval", number=1, timeout=None)
    assert not await world.clock.fetch("select from holdfast.signal_waits")


async def test_who_waits_for_nothing_has_failed(world: World) -> None:
    mine = await begin(world, max_retries_failure=3)
    await world.complete(mine, "waiting")
    task = await world.task(mine.task_id)
    assert task.state in (TaskState.FAILED, TaskState.DEAD_LETTERED)


async def test_a_report_that_it_waits_is_answered_alike_when_it_is_repeated(world: World) -> None:
    mine = await park(world)
    assert (await world.complete(mine, "waiting")).accepted
    assert (await world.task(mine.task_id)).attempt == 1


async def test_what_is_wrong_is_named_and_changes_nothing(world: World) -> None:
    mine = await begin(world)
    job_id = mine.task_id.job_id
    with pytest.raises(NotFound):
        await send(world, 987654)
    with pytest.raises(NotFound):
        await send(world, job_id, task_index=5)
    with pytest.raises(Invalid, match=r"^name: is empty"):
        await send(world, job_id, name="")
    with pytest.raises(TooLarge, match=r"^name: "):
        await send(world, job_id, name="x" * 201)
    with pytest.raises(Invalid, match=r"^payload: is not JSON"):
        await send(world, job_id, "{")
    with pytest.raises(Invalid, match=r"^idempotency_key: is empty"):
        await send(world, job_id, idempotency_key="")
    many = await world.submit(inputs=[1, 2])
    with pytest.raises(Invalid, match=r"^task: is missing"):
        await send(world, many)
    with pytest.raises(Invalid, match=r"^timeout: "):
        await ask(world, mine, timeout=-1)
    with pytest.raises(Invalid, match=r"^number: "):
        await ask(world, mine, number=1001)
    assert not await world.clock.fetch("select from holdfast.signals")
    assert not await world.clock.fetch("select from holdfast.signal_waits")


async def test_a_task_keeps_so_many_signals_of_a_name(world: World) -> None:
    mine = await begin(world)
    await world.clock.fetch(
        "insert into holdfast.signals select $1, 0, 'approval', n, 'null', holdfast.now(), 'x'"
        " from generate_series(1, 1000) as n",
        mine.task_id.job_id,
    )
    with pytest.raises(TooLarge, match=r"^name: 1001 signals"):
        await send(world, mine.task_id.job_id)


async def _is_blocked(world: World) -> bool:
    [row] = await world.clock.fetch(
        "select exists (select from pg_locks where not granted and database = "
        "(select oid from pg_database where datname = current_database()))"
        " or exists (select from pg_locks where not granted and locktype = 'transactionid')"
    )
    return bool(row[0])


async def _is_heard(world: World) -> None:
    await requeue_due(world.ledger)
    [again] = await world.claim()
    assert await ask(world, again) == Waited("received", "5")
    await be_sound(world)


async def test_what_is_being_sent_when_the_attempt_ends_is_heard(
    world: World, database_url: str
) -> None:
    mine = await begin(world)
    assert await ask(world, mine) == WAITING
    sender = await asyncpg.connect(database_url)
    try:
        async with sender.transaction():
            await sender.execute(PUT, mine.task_id.job_id)
            ending = asyncio.create_task(insist_on(world.complete, mine, "waiting"))
            await eventually(lambda: _is_blocked(world))
        await ending
    finally:
        await sender.close()
    await _is_heard(world)


async def test_what_is_sent_while_the_attempt_ends_is_heard(
    world: World, database_url: str
) -> None:
    mine = await begin(world)
    assert await ask(world, mine) == WAITING
    sender = await asyncpg.connect(database_url)
    try:
        async with world.ledger.database.transaction() as tx:
            tx.news, moves = News(), Moves()
            report = Completion(fence_of(mine), "waiting")
            await end_reported_attempts(world.ledger, tx, [report], moves=moves)
            await apply_moves(tx, moves)
            sending = asyncio.create_task(sender.execute(PUT, mine.task_id.job_id))
            await eventually(lambda: _is_blocked(world))
        await sending
    finally:
        await sender.close()
    await _is_heard(world)


async def test_of_many_that_are_sent_as_attempts_end_none_is_lost(world: World) -> None:
    job_id = await world.submit(inputs=list(range(40)))
    claims = await world.claim(40)
    for claim in claims:
        await ask(world, claim)
    await asyncio.gather(
        *(insist_on(world.complete, claim, "waiting") for claim in claims),
        *(
            insist_on(send, world, job_id, str(index), task_index=index)
            for index in reversed(range(40))
        ),
    )
    await world.run_chores()
    again = await world.claim(40)
    assert len(again) == 40
    for claim in again:
        assert await ask(world, claim) == Waited("received", str(claim.task_id.task_index))
    await be_sound(world)
