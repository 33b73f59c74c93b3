"""kill -9 of the primary under load, and its standby promoted: clients and workers go on."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.embedded import EmbeddedPostgres
from tests.e2e.system import System, eventually
from tests.e2e.tasks import slowly_triple, triple
from tests.e2e.test_kills import check_ledger, ended_tasks, has_ended
from tests.standby import copy, kill_whole, promote, url_of_both, wait_for_it
from tests.test_guides import free_port

log = logging.getLogger("tests.failover")
TASKS_PER_JOB = 20
BEFORE, AFTER = 400, 2000


class SystemOfTwo(System):
    """A system whose Postgres has a standby; it finds the primary by itself."""

    standby: EmbeddedPostgres | None = None

    @property
    def database_url(self) -> str:
        """Where the ledger is: at either of the two."""
        if self.standby is None:
            return super().database_url
        return url_of_both(self.postgres, self.standby, "e2e")


@contextmanager
def running_with_standby(folder: Path) -> Iterator[tuple[SystemOfTwo, EmbeddedPostgres]]:
    """Run a primary, its synchronous standby and a server for the time of a block."""
    system = SystemOfTwo(folder, free_port())
    try:
        system.start_postgres()
        with copy(system.postgres, folder / "standby") as standby:
            asyncio.run(wait_for_it(system.postgres))
            system.standby = standby
            system.start_server()
            try:
                yield system, standby
            finally:
                system.stop()
    finally:
        system.stop()


class Submitter(threading.Thread):
    """Submits jobs one after another, and remembers those that were acknowledged."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.jobs: list[tuple[hf.Job[int], int]] = []
        self.is_closing = threading.Event()

    def run(self) -> None:
        """Submit until told to close, through every outage."""
        while not self.is_closing.is_set():
            start = len(self.jobs) * TASKS_PER_JOB
            task = slowly_triple if len(self.jobs) % 4 == 0 else triple
            self.jobs.append((task.map(range(start, start + TASKS_PER_JOB)), start))


@pytest.mark.nightly
def test_clients_and_workers_go_on_when_a_synchronous_standby_takes_over(tmp_path: Path) -> None:
    with running_with_standby(tmp_path) as (system, standby), system.client():
        for _ in range(2):
            system.start_worker("--concurrency", "40")
        assert triple.map([1, 2]).results(timeout=120) == [3, 6]
        submitter = Submitter()
        submitter.start()
        eventually(partial(has_ended, system, BEFORE))
        acknowledged = len(submitter.jobs)
        log.info("%d jobs acknowledged, %d tasks ended", acknowledged, ended_tasks(system))
        kill_whole(system.postgres)
        asyncio.run(promote(standby))
        eventually(partial(has_ended, system, AFTER))
        submitter.is_closing.set()
        submitter.join(60)
        assert not submitter.is_alive()
        assert len(submitter.jobs) > acknowledged > 0
        for job, start in submitter.jobs:
            expected = [n * 3 for n in range(start, start + TASKS_PER_JOB)]
            assert job.results(timeout=120) == expected
        log.info("%d jobs acknowledged in all, each is there with its results", len(submitter.jobs))
        check_ledger(system)
