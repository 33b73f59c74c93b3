"""Claims and heartbeats: what is handed out, to whom, why not, and how long one may wait for it."""

import asyncio
from typing import Any
from uuid import uuid4

from holdfast.ledger.news import News
from holdfast.services.runtime import Runtime
from holdfast.services.waking.doorbell import Bell
from holdfast.services.waking.notify import listening
from tests.api.asgi import Exchange
from tests.api.face import Face, fence, heard
from tests.waiting import eventually
from tests.world import World

LISTENERS = (
    "select pid from pg_stat_activity where datname = current_database() and query ilike 'listen %'"
)


async def refused(face: Face, **fields: Any) -> Any:
    """Make a claim that is refused, and give the error."""
    said = await face.post("/internal/task-claim", {"worker_id": "w1", **fields})
    assert said.status == 409
    assert said.error["code"] == "lease_conflict"
    return said.error["details"]


async def poll_in_turn(face: Face, polls: int, count: int) -> list[Exchange]:
    """Let several wait for the queue `q`, one after another."""
    begun = []
    for n in range(polls):
        begun.append(face.poll(f"w{n}", count, queues=["q", f"own{n}"]))
        await face.polling(f"own{n}")
    return begun


async def test_a_claim_carries_all_that_a_worker_needs(quiet_face: Face) -> None:
    spec: dict[str, Any] = {
        "inputs": [{"path": "a"}, None],
        "name": "nightly",
        "type": "report",
        "environment": {"REGION": "north"},
        "timeout": 60.0,
        "correlation_id": "c-1",
        "trace_id": "t-1",
    }
    job_id = await quiet_face.submit(**spec)
    claims = await quiet_face.claim(5)
    assert [claim["task_id"] for claim in claims] == [f"{job_id}.0", f"{job_id}.1"]
    assert [claim["input"] for claim in claims] == [{"path": "a"}, None]
    first = claims[0]
    assert (first["attempt"], first["failure_count"], first["preemption_count"]) == (0, 0, 0)
    assert 0 < first["lease_remaining_ms"] <= 30_000
    assert first["lease_expires_at"].endswith("Z")
    assert first["job"] == {
        "job_id": job_id,
        "name": "nightly",
        "type": "report",
        "entrypoint": {"function": "app:work"},
        "num_tasks": 2,
        "lease": 30.0,
        "grace": 30.0,
        "correlation_id": "c-1",
        "queue": "q",
        "timeout": 60.0,
        "environment": {"REGION": "north"},
        "trace_id": "t-1",
        "fan_out": True,
    }
    assert claims[0]["lease_token"] != claims[1]["lease_token"]


async def test_a_claim_by_id_takes_that_task(quiet_face: Face) -> None:
    job_id = await quiet_face.submit(inputs=[1, 2])
    [claim] = await quiet_face.claim(task_id=f"{job_id}.1")
    assert (claim["task_id"], claim["input"]) == (f"{job_id}.1", 2)


async def test_each_reason_why_a_task_cannot_be_claimed_is_said(
    quiet_face: Face, world: World
) -> None:
    running = await quiet_face.submit()
    [claim] = await quiet_face.claim(task_id=f"{running}.0")
    finished = await quiet_face.submit()
    [done] = await quiet_face.claim(task_id=f"{finished}.0")
    await quiet_face.complete(done)
    cancelled = await quiet_face.submit()
    await quiet_face.post(f"/api/jobs/{cancelled}:cancel", {"mode": "hard"})
    later = await quiet_face.submit(not_before=4_000_000_000.0)
    paused = await quiet_face.submit(queue="paused")
    await quiet_face.post("/api/queues/paused:pause")
    placed = await quiet_face.submit(queue=None)
    reasons = {
        f"{running}.0": "already_running",
        f"{finished}.0": "finished",
        f"{cancelled}.0": "cancelled",
        "999999.0": "not_found",
        f"{running}.7": "not_found",
        f"{later}.0": "not_eligible",
        f"{paused}.0": "paused",
        f"{placed}.0": "not_claimable",
    }
    for task_id, reason in reasons.items():
        details = await refused(quiet_face, task_id=task_id)
        assert details == {"reason": reason, "task_id": task_id}
    conflicts = b"holdfast_claim_conflicts_total %.1f" % len(reasons)
    assert conflicts in quiet_face.runtime.metrics.render()
    assert (await quiet_face.beat(claim)).status == 200


async def test_a_claim_by_id_does_not_wait(quiet_face: Face) -> None:
    await refused(quiet_face, task_id="999999.0", wait_ms=60_000)


async def test_a_repeat_under_the_same_key_gives_the_same_leases(quiet_face: Face) -> None:
    await quiet_face.submit(inputs=[1, 2, 3])
    first = await quiet_face.claim(2, idempotency_key="k")
    again = await quiet_face.claim(2, idempotency_key="k")
    assert [fence(claim) for claim in again] == [fence(claim) for claim in first]
    assert all(0 < claim["lease_remaining_ms"] <= 30_000 for claim in again)
    await quiet_face.complete(first[0])
    rest = await quiet_face.claim(2, idempotency_key="k")
    assert [fence(claim) for claim in rest] == [fence(first[1])]
    body = {"worker_id": "w1", "queues": ["q"], "max_tasks": 3, "idempotency_key": "k"}
    other = await quiet_face.post("/internal/task-claim", body)
    assert (other.status, other.error["field"]) == (409, "idempotency_key")


async def test_a_repeated_long_poll_gives_the_same_leases(quiet_face: Face) -> None:
    poll = quiet_face.poll(idempotency_key="k")
    await quiet_face.polling()
    await quiet_face.submit()
    [claim] = (await heard(poll)).json["claims"]
    [again] = await quiet_face.claim(idempotency_key="k")
    assert fence(again) == fence(claim)


BAD_CLAIMS: list[tuple[str, Any]] = [
    ("worker_id", {"queues": ["q"]}),
    ("worker_id", {"worker_id": "a b", "queues": ["q"]}),
    ("worker_id", {"worker_id": "w\x00", "queues": ["q"]}),
    ("queues", {"worker_id": "w1"}),
    ("queues", {"worker_id": "w1", "queues": [""]}),
    ("queues", {"worker_id": "w1", "queues": ["q", "q"]}),
    ("queues[0]", {"worker_id": "w1", "queues": [1]}),
    ("queues", {"worker_id": "w1", "queues": ["q"], "task_id": "1.0"}),
    ("task_id", {"worker_id": "w1", "task_id": "1"}),
    ("max_tasks", {"worker_id": "w1", "queues": ["q"], "max_tasks": 0}),
    ("max_tasks", {"worker_id": "w1", "queues": ["q"], "max_tasks": 1001}),
    ("wait_ms", {"worker_id": "w1", "queues": ["q"], "wait_ms": -1}),
    ("wait_ms", {"worker_id": "w1", "queues": ["q"], "wait_ms": 60_001}),
    ("idempotency_key", {"worker_id": "w1", "queues": ["q"], "idempotency_key": ""}),
    ("priority", {"worker_id": "w1", "queues": ["q"], "priority": 1}),
]


async def test_a_bad_claim_names_its_field_and_takes_nothing(quiet_face: Face) -> None:
    await quiet_face.submit()
    for field, body in BAD_CLAIMS:
        said = await quiet_face.post("/internal/task-claim", body)
        told = (said.status, said.error["code"], said.error["field"])
        assert told == (400, "invalid", field), body
        assert quiet_face.runtime.doorbells.names("queue") == []
        await quiet_face.runtime.stops.note_workers()
    assert len(await quiet_face.claim()) == 1


async def test_a_replaced_worker_gets_nothing(quiet_face: Face) -> None:
    await quiet_face.submit()
    await register(quiet_face, "w1")
    await register(quiet_face, "w2", replaces="w1")
    details = await refused(quiet_face, queues=["q"])
    assert "replaced" in details["reason"]


async def register(face: Face, worker: str, **fields: Any) -> Any:
    body = {"worker_id": worker, "name": "worker", "host": "here", "queues": ["q"], **fields}
    said = await face.post("/internal/worker-register", body)
    assert said.status == 200, said
    return said.json


async def test_registering_and_replacing(quiet_face: Face, world: World) -> None:
    first = await register(quiet_face, "w1")
    assert first == {"worker_id": "w1", "taken_over": 0, "adopted": [], "heartbeat_seconds": None}
    await quiet_face.submit(inputs=[1, 2])
    claims = await quiet_face.claim(2)
    assert (await register(quiet_face, "w2", replaces="w1"))["taken_over"] == 2
    assert (await quiet_face.beat(claims[0])).status == 409
    again = await quiet_face.claim(2, worker="w2")
    assert [claim["attempt"] for claim in again] == [1, 1]
    [row] = await world.clock.fetch("select queues from holdfast.workers where worker_id = 'w2'")
    assert row[0] == ["q"]
    for status, body in (
        (404, {"worker_id": "w3", "name": "worker", "host": "here", "replaces": "nobody"}),
        (400, {"worker_id": "w3", "name": "worker", "host": "elsewhere", "replaces": "w2"}),
        (400, {"worker_id": "w3", "name": "", "host": "here"}),
        (400, {"worker_id": "w3", "name": "w", "host": "here", "resources": {"cpu": -1}}),
        (409, {"worker_id": "w1", "name": "worker", "host": "here"}),
    ):
        said = await quiet_face.post("/internal/worker-register", body)
        assert said.status == status
        assert said.error


# Long polls. Without chores nobody looks again: whoever is woken was rung for.


async def test_a_poll_that_finds_nothing_answers_empty_at_its_end(quiet_face: Face) -> None:
    poll = quiet_face.poll(wait_ms=20)
    said = await heard(poll)
    assert (said.status, said.json["claims"]) == (200, [])
    assert quiet_face.runtime.doorbells.names("queue") == []


async def test_a_poll_is_woken_by_a_submission(quiet_face: Face) -> None:
    poll = quiet_face.poll()
    await quiet_face.polling()
    job_id = await quiet_face.submit()
    said = await heard(poll)
    assert [claim["task_id"] for claim in said.json["claims"]] == [f"{job_id}.0"]


async def test_the_time_of_a_lease_does_not_count_the_wait_before_it(quiet_face: Face) -> None:
    poll = quiet_face.poll()
    await quiet_face.polling()
    began = asyncio.get_running_loop().time()
    await eventually(lambda: asyncio.get_running_loop().time() > began + 0.05)
    await quiet_face.submit()
    said = await heard(poll)
    assert said.json["waited_ms"] >= 50


async def test_a_poll_is_woken_by_a_retry_a_resumption_and_a_replay(quiet_face: Face) -> None:
    job_id = await quiet_face.submit()
    [claim] = await quiet_face.claim()
    poll = quiet_face.poll()
    await quiet_face.polling()
    await quiet_face.complete(claim, "handed_back")
    [again] = (await heard(poll)).json["claims"]
    assert (again["task_id"], again["attempt"]) == (f"{job_id}.0", 1)

    poll = quiet_face.poll()
    await quiet_face.polling()
    await quiet_face.complete(again, "failed", error="boom")
    said = await quiet_face.post("/api/dead-letters:replay", {"task_ids": [f"{job_id}.0"]})
    [replayed] = (await heard(poll)).json["claims"]
    assert replayed["job"]["job_id"] == said.json["replays"][0]["job_id"]

    await quiet_face.post("/api/queues/q:pause")
    await quiet_face.submit()
    poll = quiet_face.poll()
    await quiet_face.polling()
    assert not poll.is_over
    await quiet_face.post("/api/queues/q:resume")
    assert len((await heard(poll)).json["claims"]) == 1


async def test_a_poll_is_woken_by_another_server(quiet_face: Face, runtime: Runtime) -> None:
    ledger = quiet_face.runtime.ledger
    async with listening(ledger.database, quiet_face.runtime.wake_ups.hear):
        await eventually(lambda: _listeners(quiet_face, 2))
        poll = quiet_face.poll()
        await quiet_face.polling()
        job_id = await Face(runtime).submit()
        said = await heard(poll)
    assert [claim["task_id"] for claim in said.json["claims"]] == [f"{job_id}.0"]


async def _listeners(face: Face, count: int) -> bool:
    async with face.runtime.reads.transaction() as tx:
        return len(await tx.connection.fetch(LISTENERS)) == count


async def test_a_poll_is_woken_by_a_users_own_transaction(quiet_face: Face, world: World) -> None:
    ledger = quiet_face.runtime.ledger
    async with listening(ledger.database, quiet_face.runtime.wake_ups.hear):
        await eventually(lambda: _listeners(quiet_face, 1))
        poll = quiet_face.poll()
        await quiet_face.polling()
        await world.submit()
        assert not poll.is_over
        await world.clock.fetch("select pg_notify('holdfast_ready', 'q')")
        said = await heard(poll)
    assert len(said.json["claims"]) == 1


async def test_a_poll_finds_by_itself_what_nobody_announced(face: Face, world: World) -> None:
    poll = face.poll()
    await face.polling()
    await world.submit()
    assert len((await heard(poll)).json["claims"]) == 1


async def test_a_ring_between_the_look_and_the_wait_is_not_lost(quiet_face: Face) -> None:
    """It comes after the look has been committed, and before its answer is heard."""
    looks: list[int] = []

    def ring_after_the_first(_: News) -> None:
        looks.append(0 if looks else quiet_face.runtime.doorbells.ring(Bell("queue", "q")))

    quiet_face.runtime.ledger.on_commit = ring_after_the_first
    poll = quiet_face.poll()
    await eventually(lambda: len(looks) == 2)
    assert not poll.is_over
    await quiet_face.runtime.stop()
    assert (await heard(poll)).json["claims"] == []
    assert len(looks) == 2


async def test_ten_tasks_wake_as_many_polls_as_they_feed(quiet_face: Face) -> None:
    polls = await poll_in_turn(quiet_face, polls=5, count=4)
    await quiet_face.submit(inputs=list(range(10)))
    await eventually(lambda: sum(poll.is_over for poll in polls) == 3)
    fed = [(await heard(poll)).json["claims"] for poll in polls if poll.is_over]
    assert sorted(len(claims) for claims in fed) == [2, 4, 4]
    assert len({claim["task_id"] for claims in fed for claim in claims}) == 10
    waiting = [poll for poll in polls if not poll.is_over]
    assert len(waiting) == 2
    await quiet_face.runtime.stop()
    assert [(await heard(poll)).json["claims"] for poll in waiting] == [[], []]


async def test_a_poll_that_was_fed_whole_lets_the_next_one_look(
    quiet_face: Face, world: World
) -> None:
    """One ring for many tasks: the hint of another server does not say how many there are."""
    polls = await poll_in_turn(quiet_face, polls=3, count=1)
    await world.submit(inputs=[1, 2, 3])
    quiet_face.runtime.wake_ups.hear("q")
    taken = [(await heard(poll)).json["claims"][0]["task_id"] for poll in polls]
    assert len(set(taken)) == 3


async def test_a_client_that_is_gone_takes_nothing(quiet_face: Face, world: World) -> None:
    poll = quiet_face.poll()
    await quiet_face.polling()
    await poll.leave()
    assert (poll.status, poll.content) == (0, b"")
    assert quiet_face.runtime.doorbells.names("queue") == []
    job_id = await quiet_face.submit()
    assert await world.story(int(job_id)) == []
    assert len(await quiet_face.claim()) == 1


async def test_a_server_that_stops_ends_polls_and_hands_nothing_out(
    quiet_face: Face, world: World
) -> None:
    poll = quiet_face.poll()
    await quiet_face.polling()
    job_id = await world.submit()
    quiet_face.runtime.wake_ups.hear("q")
    await quiet_face.runtime.stop()
    assert (await heard(poll)).json["claims"] == []
    said = await quiet_face.post("/internal/task-claim", {"worker_id": "w1", "queues": ["q"]})
    assert (said.status, said.error["code"]) == (503, "stopping")
    assert said.headers["retry-after"] == "1"
    assert await world.story(job_id) == []


async def test_a_stranger_has_no_lease_to_show(quiet_face: Face) -> None:
    await quiet_face.submit()
    [claim] = await quiet_face.claim()
    said = await quiet_face.beat({**claim, "lease_token": str(uuid4())})
    assert (said.status, said.error["code"]) == (409, "lease_conflict")
