"""The table of workers through its functions."""

from datetime import timedelta

from holdfast.store.database import Database
from holdfast.store.tables.access.tokens import add_token, revoke_token
from holdfast.store.tables.workers.workers import (
    CalledWorker,
    FailingWorker,
    FleetWorker,
    KnownWorker,
    NewWorker,
    count_failures,
    drain_worker,
    find_worker,
    hold_open_workers,
    hold_workers,
    list_called_workers,
    list_draining,
    list_lost_workers,
    lose_workers_of_ended_tokens,
    mark_lost,
    mark_replaced,
    prune_workers,
    read_called_workers,
    read_fleet,
    read_secret_hashes,
    record_answers,
    register_worker,
    see_workers,
)

HASH = b"h" * 32
CALLED = NewWorker("c", "name", "host", [], "http://host:1", HASH, '{"cpu": 1}', "{}")


async def test_a_worker_registers_drains_and_is_replaced(database: Database) -> None:
    claimer = NewWorker("w", "name", "host", ["q"])
    async with database.transaction() as tx:
        await register_worker(tx, claimer)
        known = await find_worker(tx, "w")
        assert known == KnownWorker("w", "name", "host", None, None, called=False, void=False)
        await see_workers(tx, ["w"])
        assert await drain_worker(tx, "w", actor="operator")
        assert not await drain_worker(tx, "nobody", actor="operator")
        assert await list_draining(tx, ["w"]) == ["w"]
        await mark_replaced(tx, "w", replaced_by="x")
        assert await list_lost_workers(tx, ["w", "x"]) == {"w"}
        assert await prune_workers(tx, older_than=-timedelta(days=1), batch_max=9) == 1
        assert await find_worker(tx, "w") is None


async def test_a_called_worker_answers_fails_and_is_lost(database: Database) -> None:
    async with database.transaction() as tx:
        await register_worker(tx, CALLED)
        known = await find_worker(tx, "c")
        assert known == KnownWorker("c", "name", "host", None, HASH, called=True, void=False)
        assert await hold_open_workers(tx, ["c"]) == set()
        await record_answers(tx, [("c", 7)], epoch=3)
        assert await hold_open_workers(tx, ["c"]) == {"c"}
        [called] = await read_called_workers(tx, ["c", "nobody"])
        assert called == CalledWorker(
            "c", "http://host:1", HASH.hex(), 3, 7, called.answered_at, draining=False
        )
        assert await count_failures(tx, [("c", "timeout")]) == [FailingWorker("c", 1, "timeout")]
        assert await read_fleet(tx) == [
            FleetWorker("c", "name", "host", '{"cpu": 1}', "{}", False, 1, True, None)
        ]
    assert await list_called_workers(database) == ["c"]
    async with database.transaction() as tx:
        assert await hold_workers(tx, ["c"]) == {"c"}
        await mark_lost(tx, [("c", "gone")])
        assert await hold_workers(tx, ["c"]) == set()
    assert await list_called_workers(database) == []


async def test_a_worker_ends_with_the_token_that_it_joined_with(database: Database) -> None:
    async with database.transaction() as tx:
        for token_id in ("t1", "t2"):
            await add_token(
                tx,
                token_id=token_id,
                name=f"name-{token_id}",
                secret_hash=HASH,
                roles=["worker"],
                owners=[],
                queues=[],
                created_by="root",
                expires_at=None,
            )
        joined: dict[str, str | None] = {"a": "t1", "b": "t2", "c": None}
        for name, with_token in joined.items():
            await register_worker(
                tx, CALLED._replace(worker_id=name, secret_hash=HASH, token_id=with_token)
            )
        await register_worker(tx, NewWorker("bare", "name", "host", []))
        await revoke_token(tx, "t1", revoked_by="root")
    stored = await read_secret_hashes(database, ["a", "b", "c", "bare", "nobody"])
    assert {name: found.void for name, found in stored.items()} == {
        "a": True,
        "b": False,
        "c": False,
    }
    assert await lose_workers_of_ended_tokens(database) == ["a"]
    assert await lose_workers_of_ended_tokens(database) == []
    assert await list_called_workers(database) == ["b", "c"]
