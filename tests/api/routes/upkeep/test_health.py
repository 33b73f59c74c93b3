"""Whether a server lives and can work, and what it has counted."""

import pytest

from holdfast.api.routes.upkeep import health
from holdfast.ledger.ledger import Ledger
from holdfast.services.runtime import Runtime
from holdfast.services.waking.doorbell import Doorbells
from holdfast.services.waking.wake_ups import WakeUps
from holdfast.store.database import Database
from tests.api.asgi import Exchange
from tests.api.face import Face

FOLLOWERS_COUNT = 100


async def test_a_server_at_work_is_alive_and_ready(face: Face) -> None:
    alive, ready = await face.get("/healthz"), await face.get("/readyz")
    assert (alive.status, alive.json) == (200, {"status": "ok"})
    assert (ready.status, ready.json) == (200, {"status": "ok", "read_replica": None})


async def test_without_postgres_it_is_alive_but_not_ready(database_url: str) -> None:
    async with Database(database_url) as database:
        face = Face(Runtime(Ledger(database), database, WakeUps(Doorbells())))
    assert (await face.get("/healthz")).status == 200
    said = await face.get("/readyz")
    assert (said.status, said.error["code"]) == (503, "unavailable")
    assert said.headers["retry-after"] == "1"


async def test_a_postgres_that_does_not_answer_is_not_waited_for(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.05)
    async with Database(database_url, connections_max=1) as database:
        face = Face(Runtime(Ledger(database), database, WakeUps(Doorbells())))
        async with database.connection():
            # The only connection is taken: whoever asks for one waits.
            said = await face.get("/readyz")
    assert (said.status, said.error["message"]) == (503, "Postgres does not answer in time")


@pytest.mark.parametrize("target", ["/readyz", "/api/jobs"])
async def test_followers_hold_up_nobody_else(face: Face, database_url: str, target: str) -> None:
    async with Database(database_url) as others, others.transaction() as tx:
        # Who reads events waits until it gives up: one after the other, for seconds altogether.
        await tx.connection.execute("lock table holdfast.events in access exclusive mode")
        followers = [
            Exchange(face.app, "GET", "/api/events/stream?after=0-0")
            for _ in range(FOLLOWERS_COUNT)
        ]
        for follower in followers:
            await follower.until(lambda text: b"\n\n" in text)
        said = await face.get(target)
        assert said.status == 200
        assert sum(not follower.is_over for follower in followers) > FOLLOWERS_COUNT / 2
    for follower in followers:
        await follower.leave()


async def test_every_metric_of_the_specification_is_scraped(quiet_face: Face) -> None:
    await quiet_face.submit(inputs=[1, 2], type="report", max_retries_failure=1)
    first, _ = await quiet_face.claim(2)
    await quiet_face.submit()
    await quiet_face.complete(first, "failed", error="boom")
    said = await quiet_face.get("/metrics")
    assert said.status == 200
    assert said.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = said.json.decode()
    for line in (
        "holdfast_claims_total 2.0",
        "holdfast_claim_conflicts_total 0.0",
        "holdfast_lease_renewals_total 0.0",
        "holdfast_lease_expiries_total 0.0",
        "holdfast_retries_total 1.0",
        "holdfast_failures_total 1.0",
        "holdfast_dead_letters_total 0.0",
        'holdfast_transitions_total{from="PENDING",to="ASSIGNED"} 2.0',
        'holdfast_queue_depth{queue="q"} 1.0',
        'holdfast_queue_oldest_age_seconds{queue="q"} ',
        'holdfast_workers{health="',
        'holdfast_wait_seconds_bucket{le="+Inf",type="report"} 2.0',
        'holdfast_run_seconds_count{type="report"} 1.0',
    ):
        assert line in text, line
