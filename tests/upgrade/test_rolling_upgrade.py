"""An upgrade under load, from the version before this one, in which nobody notices anything."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast as hf
from tests.e2e.system import eventually
from tests.upgrade.fleet import Fleet, running_fleet
from tests.upgrade.previous import ROOT
from tests.upgrade.tasks import claimed, placed
from tests.upgrade.test_side_by_side import audit

SERVERS = ("server-a", "server-b")
WORKERS = {
    "claimed-a": "claimed",
    "claimed-b": "claimed",
    "placed-a": "placed",
    "placed-b": "placed",
}
# In flight from the beginning to the end; each tenth fails once.
BACKLOG, BACKLOG_SECONDS = 5_000, 0.5
# And past them a job of so many tasks, again and again.
CLAIMED, PLACED = 50, 2
SECONDS_MAX = 120
SOONER = 10


class Load:
    """A client that submits through one server, and waits for what came of it."""

    def __init__(self, server: str, *, backlog: int = 0) -> None:
        self.tasks = 0
        self.versions: set[str] = set()
        self.error: BaseException | None = None
        self._server = server
        self._backlog = backlog
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Submit nothing more; raises what the client has met, if anything."""
        self._is_over.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            with hf.Client(self._server) as client:
                first = self._submit_backlog(client)
                while not self._is_over.is_set():
                    self._submit_and_wait(client)
                if first is not None:
                    self._check(first, self._backlog)
        except BaseException as error:  # noqa: BLE001 whatever it is, the test tells it
            self.error = error

    def _submit_backlog(self, client: hf.Client) -> hf.Job[Any] | None:
        if not self._backlog:
            return None
        return client.map(claimed, range(self._backlog), seconds=BACKLOG_SECONDS)

    def _submit_and_wait(self, client: hf.Client) -> None:
        sooner = claimed.with_options(priority=SOONER)
        many, few = client.map(sooner, range(CLAIMED)), client.map(placed, range(PLACED))
        self._check(many, CLAIMED)
        self._check(few, PLACED)

    def _check(self, job: hf.Job[Any], count: int) -> None:
        answers = job.results(timeout=SECONDS_MAX)
        assert [answer[0] for answer in answers] == [n * 3 for n in range(count)]
        self.versions |= {answer[1] for answer in answers}
        self.tasks += count


def replace_all(fleet: Fleet, version: Path, go_on: Callable[[], None]) -> None:
    """Replace servers, then workers, one by one; each has work to do before the next."""
    for name in SERVERS:
        fleet.serve(version, name)
        go_on()
    for number, (name, kind) in enumerate(WORKERS.items()):
        fleet.hire(version, name, server=SERVERS[number % 2], kind=kind)
        go_on()


def tell(url: str) -> dict[str, int]:
    """Count tasks that have not ended, leases, and what was lost on the way."""
    query = """
        select (select count(*) from holdfast.tasks where finished_at is null),
               (select count(*) from holdfast.leases),
               (select count(*) from holdfast.dead_letters),
               (select count(*) from holdfast.tasks)"""
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return dict(zip(("open", "leases", "dead", "tasks"), row, strict=True))


@pytest.mark.nightly
def test_nobody_notices_a_rolling_upgrade_under_load(
    previous: Path, empty_url: str, tmp_path: Path
) -> None:
    with running_fleet(empty_url, tmp_path) as fleet:
        fleet.migrate(previous)
        for name in SERVERS:
            fleet.serve(previous, name)
        for number, (name, kind) in enumerate(WORKERS.items()):
            fleet.hire(previous, name, server=SERVERS[number % 2], kind=kind)
        loads = [Load(fleet.url(name), backlog=BACKLOG // 2) for name in SERVERS]
        loads += [Load(fleet.url(name)) for name in SERVERS]

        def go_on() -> None:
            """Wait until every client has had more answers."""
            before = [load.tasks for load in loads]
            eventually(
                lambda: (
                    any(load.error for load in loads)
                    or all(load.tasks > had for load, had in zip(loads, before, strict=True))
                ),
                SECONDS_MAX,
            )

        try:
            go_on()
            fleet.migrate(ROOT)
            go_on()
            still_open = tell(empty_url)["open"]
            replace_all(fleet, ROOT, go_on)
            assert fleet.are_all_running()
        finally:
            for load in loads:
                load.end()
        assert set().union(*(load.versions for load in loads)) == {str(previous), str(ROOT)}
        eventually(lambda: tell(empty_url)["leases"] == 0)
        found = tell(empty_url)
        assert (found["open"], found["dead"]) == (0, 0)
        assert found["tasks"] == sum(load.tasks for load in loads) > BACKLOG
        assert still_open > BACKLOG // 2, "the load was over before the processes were replaced"
        for name in (*WORKERS, *SERVERS):
            fleet.end(name)
    asyncio.run(audit(empty_url))
