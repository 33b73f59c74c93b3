"""What is new in this version, in use while a server and a worker of the one before are there."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.wire.shares import ShareRuleRequest
from tests.e2e.system import eventually
from tests.upgrade.fleet import running_fleet
from tests.upgrade.previous import ROOT
from tests.upgrade.tasks import (
    WAITS,
    claimed,
    claimed_endless,
    waiting_for_a_word,
)
from tests.upgrade.test_side_by_side import SECONDS_MAX, audit, begin


def test_chains_keep_their_order_where_an_older_server_follows_up(
    previous: Path, empty_url: str, tmp_path: Path
) -> None:
    with running_fleet(empty_url, tmp_path) as fleet:
        older = begin(fleet, previous, previous)
        newer = fleet.serve(ROOT, "newer")
        fleet.hire(previous, "one", kind="claimed")
        with hf.Client(newer):
            of_chain: dict[str, Any] = {"chain": "c", "on_failure": "block"}
            first = claimed_endless.with_options(**of_chain).submit(str(tmp_path))
            second = claimed.with_options(**of_chain).submit(2)
            third = claimed.with_options(**of_chain).submit(3)
            failing = claimed.with_options(chain="d", retries=0).submit(0)
            blocked = claimed.with_options(chain="d", on_failure="block").submit(5)
            after = [hf.Dependency(each, "ended") for each in (second, failing)]
            told = claimed.with_options(depends_on=after).submit(7)
        eventually((tmp_path / first.id).exists, SECONDS_MAX)
        fleet.end("newer")
        with hf.Client(older) as client:
            client.job(second.id).cancel("hard")
            # What waits without a chain goes on; by then these ends have been followed up.
            assert client.job(told.id).result(timeout=SECONDS_MAX)[0] == 21
            for job in (third, blocked):
                assert client.job(job.id).status().state == "JOB_STATE_PENDING"
        fleet.serve(ROOT, "newer")
        with hf.Client(newer) as client:
            client.job(first.id).cancel("soft")
            assert client.job(third.id).result(timeout=SECONDS_MAX)[0] == 9
            assert client.jobs.let_pass(failing.id)
            assert client.job(blocked.id).result(timeout=SECONDS_MAX)[0] == 15
        for name in ("one", "newer", "server"):
            fleet.end(name)
    asyncio.run(audit(empty_url))


def test_all_that_is_new_comes_to_its_end_beside_an_older_server_and_worker(
    previous: Path, empty_url: str, tmp_path: Path
) -> None:
    with running_fleet(empty_url, tmp_path) as fleet:
        older = begin(fleet, previous, previous)
        newer = fleet.serve(ROOT, "newer")
        fleet.hire(previous, "older-hands", kind="claimed")
        fleet.hire(ROOT, "newer-hands", server="newer", kind="claimed")
        fleet.hire(ROOT, "ears", server="newer", kind="claimed", queue=WAITS)
        with hf.Client(newer) as client:
            client.limits.put("customers", "key", slots=2)
            client.limits.put("closed", "key", only_for="ice", slots=0)
            client.shares.set("upgrade", ShareRuleRequest("owner"))
            client.schedules.set("beat", claimed.spec(1), every=1, overlap="allow")
            many = claimed.with_options(concurrency_key="acme").map(range(40), seconds=0.02)
            chained = [claimed.with_options(chain="c").submit(n) for n in range(1, 6)]
            once = claimed_endless.with_options(unique=True)
            unique = [once.submit(str(tmp_path)) for _ in range(2)]
            assert unique[0].id == unique[1].id
            late = client.run_command(["true"], queue="nobody", expires=1)
            gated = waiting_for_a_word.with_options(concurrency_key="ice").submit()
            asked = waiting_for_a_word.submit()

            def is_parked() -> bool:
                return client.tasks.get(f"{asked.id}.0").waits_for is not None

            assert [each[0] for each in many.results(timeout=SECONDS_MAX)] == [
                n * 3 for n in range(40)
            ]
            assert [job.result(timeout=SECONDS_MAX)[0] for job in chained] == [3, 6, 9, 12, 15]
            for before, after in pairwise(job.status() for job in chained):
                assert (before.finished_at_ms or 0) <= (after.started_at_ms or 0)
            assert late.wait(SECONDS_MAX).state == "JOB_STATE_DEAD_LETTERED"
            eventually(is_parked, SECONDS_MAX)
            client.signal(asked.id, "word", "go")
            assert asked.result(timeout=SECONDS_MAX) == "go"
            eventually(lambda: len(client.schedules.firings("beat").firings) >= 3, SECONDS_MAX)
            client.schedules.delete("beat")
            eventually(lambda: client.limits.get("closed").limit.gated == 1, SECONDS_MAX)
            eventually((tmp_path / unique[0].id).exists, SECONDS_MAX)
            with hf.Client(older) as old:
                for job in (unique[0], gated):
                    old.job(job.id).cancel("hard")
                    assert old.job(job.id).wait(SECONDS_MAX).state == "JOB_STATE_KILLED"
            client.limits.delete("closed")
            again = once.submit(str(tmp_path))
            assert again.id != unique[0].id
            again.cancel("hard")
            again.wait(SECONDS_MAX)
            eventually(lambda: client.limits.get("customers").limit.held == 0, SECONDS_MAX)
        assert fleet.are_all_running()
        for name in ("older-hands", "newer-hands", "ears", "server", "newer"):
            fleet.end(name)
    asyncio.run(audit(empty_url))
