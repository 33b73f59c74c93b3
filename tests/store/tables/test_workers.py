"""The table of workers through its functions."""

from datetime import timedelta

from holdfast.store.database import Database
from holdfast.store.tables.workers import (
    CalledWorker,
    FailingWorker,
    FleetWorker,
    NewWorker,
    count_failures,
    drain_worker,
    find_secret,
    find_worker,
    hold_open_workers,
    hold_workers,
    list_called_workers,
    list_draining,
    list_lost_workers,
    mark_lost,
    mark_replaced,
    prune_workers,
    read_called_workers,
    read_fleet,
    record_answers,
    register_worker,
    see_workers,
)

CALLED = NewWorker("c", "name", "host", [], "http://host:1", "s" * 16, '{"cpu": 1}', "{}")


async def test_a_worker_registers_drains_and_is_replaced(database: Database) -> None:
    claimer = NewWorker("w", "name", "host", ["q"])
    async with database.transaction() as tx:
        await register_worker(tx, claimer)
        known = await find_worker(tx, "w")
        assert known == ("w", "name", "host", None)
        assert await find_secret(tx, "w") is None
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
        assert await find_secret(tx, "c") == "s" * 16
        assert await hold_open_workers(tx, ["c"]) == set()
        await record_answers(tx, [("c", 7)], epoch=3)
        assert await hold_open_workers(tx, ["c"]) == {"c"}
        [called] = await read_called_workers(tx, ["c", "nobody"])
        assert called == CalledWorker(
            "c", "http://host:1", "s" * 16, 3, 7, called.answered_at, draining=False
        )
        assert await count_failures(tx, [("c", "timeout")]) == [FailingWorker("c", 1, "timeout")]
        assert await read_fleet(tx) == [
            FleetWorker("c", "name", "host", '{"cpu": 1}', "{}", False, 1, True)
        ]
    assert await list_called_workers(database) == ["c"]
    async with database.transaction() as tx:
        assert await hold_workers(tx, ["c"]) == {"c"}
        await mark_lost(tx, [("c", "gone")])
        assert await hold_workers(tx, ["c"]) == set()
    assert await list_called_workers(database) == []
