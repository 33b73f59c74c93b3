"""Servers, workers and clients of this version and the one before it, on one migrated database."""

import asyncio
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.e2e.system import eventually
from tests.upgrade.fleet import Fleet, running_fleet
from tests.upgrade.previous import ROOT
from tests.upgrade.tasks import placed_until

SECONDS_MAX = 60


async def audit(url: str) -> None:
    async with Database(url) as database:
        await assert_audit_is_silent(database)


def begin(fleet: Fleet, previous: Path, server: Path) -> str:
    """Have a server on a database that the version before has made, and this one migrated."""
    fleet.migrate(previous)
    url = fleet.serve(previous)  # before there is anything that it would not know
    fleet.migrate(ROOT)
    return fleet.serve(ROOT) if server == ROOT else url


AT_NIGHT = pytest.mark.nightly


@pytest.mark.parametrize("kind", ["claimed", pytest.param("placed", marks=AT_NIGHT)])
@pytest.mark.parametrize("older", ["server", "worker", pytest.param("client", marks=AT_NIGHT)])
def test_two_versions_work_together(
    older: str, kind: str, previous: Path, empty_url: str, tmp_path: Path
) -> None:
    version = dict.fromkeys(("server", "worker", "client"), ROOT) | {older: previous}
    with running_fleet(empty_url, tmp_path) as fleet:
        begin(fleet, previous, version["server"])
        fleet.hire(version["worker"], "one", kind=kind)
        used = fleet.use(version["client"], kind)
        assert used == {"client": str(version["client"]), "tasks": [str(version["worker"])]}
        assert fleet.are_all_running()
        fleet.end("one")
        fleet.end("server")
    asyncio.run(audit(empty_url))


@pytest.mark.nightly
@pytest.mark.parametrize("newer", ["first", "second"])
def test_a_worker_takes_over_what_one_of_the_other_version_has_started(
    newer: str, previous: Path, empty_url: str, tmp_path: Path
) -> None:
    first, second = (ROOT, previous) if newer == "first" else (previous, ROOT)
    # Three calls that fail are the end of a worker: the second one may take that long to start.
    with running_fleet(empty_url, tmp_path, heartbeat_seconds=10) as fleet:
        url = begin(fleet, previous, ROOT)
        fleet.hire(first, "one", kind="placed")
        with hf.Client(url) as client:
            job = placed_until.submit(str(tmp_path))
            eventually((tmp_path / job.id).exists, SECONDS_MAX)
            fleet.kill("one")
            fleet.hire(second, "one", kind="placed")

            def is_replaced() -> bool:
                workers = client.workers.list().workers
                return sorted(each.health for each in workers) == ["healthy", "lost"]

            eventually(is_replaced, SECONDS_MAX)
            (tmp_path / "go").touch()
            assert job.result(timeout=SECONDS_MAX) > 0
            attempts = client.tasks.get(f"{job.id}.0").attempts or []
            assert [(each.attempt_id, each.state) for each in attempts] == [
                (0, "TASK_STATE_SUCCEEDED")
            ]
        fleet.end("one")
        fleet.end("server")
    asyncio.run(audit(empty_url))
