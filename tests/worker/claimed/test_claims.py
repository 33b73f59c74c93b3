"""The calls by which a worker gets its work: known to the server, and each claim heard once."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from holdfast.client.transport import Transport
from holdfast.errors import LeaseConflict
from holdfast.model.work.ids import parse_task_id
from holdfast.model.workers.resources import Capacity
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.operations.register import Registration, register
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.claims import Claims, Replaced
from holdfast.worker.processes.clock import boot_clock
from tests.client.peer import Say, listening
from tests.waiting import eventually
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.workplace import QUEUE, Workplace, call

FIRST, SECOND = (WorkerCredential(name, "s" * 32) for name in ("w-1", "w-2"))


@pytest.fixture
async def transport(workplace: Workplace) -> AsyncIterator[Transport]:
    """A connection to the server."""
    async with Transport(workplace.url) as transport:
        yield transport


def refuse(attempts: Sequence[Attempt]) -> None:
    """Take nothing back."""
    assert not attempts


async def test_a_worker_is_known_once_it_has_registered(
    workplace: Workplace, transport: Transport
) -> None:
    claims = Claims(
        transport,
        FIRST,
        [QUEUE],
        capacity=Capacity(2.0),
        hand_back=refuse,
    )
    assert await claims.register("w", None, asyncio.Event()) == 0
    [row] = await workplace.fetch("select name, queues, claims_up_to from holdfast.workers")
    assert tuple(row) == ("w", [QUEUE], '{"cpu": 2.0}')


async def test_a_predecessor_that_nobody_knows_is_not_insisted_on(
    workplace: Workplace, transport: Transport
) -> None:
    claims = Claims(transport, SECOND, [QUEUE], hand_back=refuse)
    assert await claims.register("w", FIRST, asyncio.Event()) == 0
    assert len(await workplace.fetch("select 1 from holdfast.workers")) == 1


async def test_a_claim_by_id_is_refused_with_a_reason(
    workplace: Workplace, transport: Transport
) -> None:
    task_id = parse_task_id(await workplace.submit(call("add", 1)))
    claims = Claims(transport, FIRST, [QUEUE], hand_back=refuse)
    [attempt] = await claims.claim_by_id(task_id)
    assert attempt.task_id == str(task_id)
    with pytest.raises(LeaseConflict, match="already_running"):
        await claims.claim_by_id(task_id)


async def test_an_incarnation_that_was_replaced_is_told_so(
    workplace: Workplace, transport: Transport
) -> None:
    ledger = workplace.server.runtime.ledger
    await register(ledger, Registration("w-1", "w", "here"))
    await register(ledger, Registration("w-2", "w", "here", replaces="w-1"))
    await workplace.submit(call("add", 1))
    with pytest.raises(Replaced):
        await Claims(transport, FIRST, [QUEUE], hand_back=refuse).claim(1, 0)


async def test_a_lease_counts_from_its_request_however_late_the_answer(
    workplace: Workplace,
) -> None:
    async with FaultyProxy(workplace.url) as proxy, Transport(proxy.url) as transport:
        claims = Claims(transport, FIRST, [QUEUE], hand_back=refuse)
        await workplace.submit(call("add", 1), lease=60.0)
        proxy.hold_answers()
        claiming = asyncio.create_task(claims.claim(1, 0))
        await eventually(lambda: workplace.fetch("select 1 from holdfast.leases"))
        leased_by = boot_clock()
        await eventually(lambda: boot_clock() > leased_by + 0.2)
        proxy.mend()
        [attempt] = await claiming
    assert attempt.expires_at <= leased_by + 60.0


async def test_what_was_claimed_for_a_call_that_is_given_up_is_handed_back(
    workplace: Workplace,
) -> None:
    returned: list[Attempt] = []
    async with FaultyProxy(workplace.url) as proxy, Transport(proxy.url) as transport:
        claims = Claims(transport, FIRST, [QUEUE], hand_back=returned.extend)
        proxy.lose_answers()
        task_id = await workplace.submit(call("add", 1))
        claiming = asyncio.create_task(claims.claim(1, 0))
        await eventually(lambda: workplace.fetch("select 1 from holdfast.leases"))
        proxy.mend()
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming
    assert [attempt.task_id for attempt in returned] == [task_id]


async def test_a_server_that_does_not_know_its_name_is_asked_again() -> None:
    forbidden = Say(403, b'{"error": {"code": "forbidden", "message": "no"}}')
    with listening() as peer:
        async with Transport(peer.url) as transport:
            claims = Claims(transport, SECOND, [QUEUE], hand_back=refuse)
            peer.script = [forbidden, Say(200, b'{"worker_id": "w-2", "taken_over": 3}')]
            assert await claims.register("w", FIRST, asyncio.Event()) == 3
            peer.script = [forbidden, Say(200, b'{"claims": [], "waited_ms": 0}')]
            assert await claims.claim(1, 0) == []
        assert [heard.json.get("replaces") for heard in peer.heard[:2]] == ["w-1", "w-1"]
        assert peer.heard[2].body == peer.heard[3].body
