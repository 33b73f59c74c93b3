"""Placed work whose workers and servers are killed, stopped or not heard: nothing runs twice.

Members show that they live by the clock that also dates the ledger, so that the last sign of life
of one attempt can be compared with the placement of the next.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.client.both import LoopThread
from tests.e2e.cluster import Begun, Cluster, find_child, is_gone, running
from tests.e2e.system import eventually, kill
from tests.test_guides import free_port
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.shimmed import find_shim

MEMBERS = range(4)
WORKER_FAILED = 7


def start_gang(cluster: Cluster, *, lease: float) -> tuple[int, dict[str, Any]]:
    """Run a gang of four over four workers; returns its job and the workers by their names."""
    workers = {f"w{n}": cluster.hire(f"w{n}") for n in MEMBERS}
    job_id = cluster.submit_gang(len(MEMBERS), lease=lease)
    cluster.await_begun(*((job_id, index, 0) for index in MEMBERS))
    assert len({cluster.worker_of(job_id, index) for index in MEMBERS}) == len(MEMBERS)
    return job_id, workers


def name_of(worker_id: str) -> str:
    """Say which worker an incarnation belongs to."""
    return worker_id.rpartition("-")[0]


def find_worker(cluster: Cluster, worker_id: str) -> Any:
    """Read what the ledger has of an incarnation."""
    [row] = cluster.fetch("select * from holdfast.workers where worker_id = %s", worker_id)
    return row


def assert_no_overlap(cluster: Cluster, job_id: int, begun: list[Begun]) -> None:
    """See that each attempt of a round showed no life once the next round was placed."""
    for one in begun:
        later = cluster.placements(job_id, one.attempt + 1)
        if later:
            assert cluster.last_beat(one) < min(placed.ts for placed in later)


def assert_begun_once(begun: list[Begun]) -> None:
    """See that no attempt has begun twice."""
    assert len({one[:2] for one in begun}) == len(begun)


def test_a_gang_restarts_together_once_the_lease_of_a_killed_worker_has_run_out(
    database_url: str, tmp_path: Path
) -> None:
    with running(database_url, tmp_path, tick=0.2) as cluster:
        cluster.start_server()
        job_id, workers = start_gang(cluster, lease=5.0)
        lost = cluster.worker_of(job_id, 2)
        kill(workers[name_of(lost)])
        cluster.hire("spare")
        begun = cluster.await_begun(*((job_id, index, 1) for index in MEMBERS))
        placed = cluster.placements(job_id, 1)
        ended = cluster.attempts(job_id)
        assert [(one.attempt, one.state) for one in ended] == [(0, WORKER_FAILED)] * 4
        assert ended[2].worker_id == lost
        # Nobody could know that its process was gone before its lease had run out.
        assert ended[2].released_at >= ended[2].last_lease_expires_at
        assert all(one.ts >= ended[2].last_lease_expires_at for one in placed)
        assert all(one.ts >= max(e.released_at for e in ended) for one in placed)
        assert len(placed) == len(MEMBERS)
        assert len({one.txid for one in placed}) == 1
        assert find_worker(cluster, lost).lost_cause is not None
        assert lost not in {cluster.worker_of(job_id, index) for index in MEMBERS}
        # No worker was there to end it: its shim has kept the deadline.
        assert cluster.last_beat(begun[2]) < ended[2].last_lease_expires_at
        assert_no_overlap(cluster, job_id, begun)
        assert_begun_once(begun)
        cluster.finish(job_id)


@pytest.mark.nightly
def test_a_worker_that_is_back_before_the_third_failed_tick_adopts_what_runs(
    database_url: str, tmp_path: Path
) -> None:
    with running(database_url, tmp_path, tick=5.0) as cluster:
        cluster.start_server()
        job_id, workers = start_gang(cluster, lease=40.0)
        begun = cluster.begun()
        lost = cluster.worker_of(job_id, 2)
        kill(workers[name_of(lost)])
        eventually(lambda: find_worker(cluster, lost).consecutive_failures > 0)
        cluster.hire(name_of(lost))
        eventually(lambda: cluster.worker_of(job_id, 2) != lost)
        heir = cluster.worker_of(job_id, 2)
        assert name_of(heir) == name_of(lost)
        assert find_worker(cluster, lost).replaced_by == heir
        eventually(lambda: find_worker(cluster, heir).answered_at is not None)
        assert not any(is_gone(one.pid) for one in begun)
        cluster.finish(job_id)
        assert cluster.begun() == begun
        assert [(one.attempt, one.state) for one in cluster.attempts(job_id)] == [(0, 4)] * 4


@pytest.mark.nightly
def test_a_worker_that_is_back_after_the_third_failed_tick_ends_what_runs(
    database_url: str, tmp_path: Path
) -> None:
    with running(database_url, tmp_path, tick=0.2) as cluster:
        cluster.start_server()
        job_id, workers = start_gang(cluster, lease=60.0)
        lost = cluster.worker_of(job_id, 2)
        [orphan] = [one for one in cluster.begun() if one.task_id == f"{job_id}.2"]
        kill(workers[name_of(lost)])
        eventually(lambda: find_worker(cluster, lost).lost_at is not None)
        # The others have ended and said so; this one is left to its lease, and keeps all waiting.
        query = "select task_index from holdfast.leases where job_id = %s"
        eventually(lambda: [row.task_index for row in cluster.fetch(query, job_id)] == [2])
        assert not is_gone(orphan.pid)
        cluster.hire(name_of(lost))
        begun = cluster.await_begun(*((job_id, index, 1) for index in MEMBERS))
        assert is_gone(orphan.pid)
        ended = cluster.attempts(job_id)
        assert [(one.attempt, one.state) for one in ended] == [(0, WORKER_FAILED)] * 4
        # Released because it was known to be gone, long before the end of its lease.
        assert ended[2].released_at < ended[2].last_lease_expires_at
        assert cluster.last_beat(orphan) < ended[2].released_at
        assert_no_overlap(cluster, job_id, begun)
        assert_begun_once(begun)
        cluster.finish(job_id)


@pytest.mark.nightly
def test_tasks_run_on_while_the_server_is_killed_and_started_again(
    database_url: str, tmp_path: Path
) -> None:
    with running(database_url, tmp_path, tick=0.05) as cluster:
        server, port = cluster.start_server()
        for name in ("w0", "w1"):
            cluster.hire(name)
        job_id = cluster.submit_gang(2, lease=60.0)
        begun = cluster.await_begun((job_id, 0, 0), (job_id, 1, 0))
        for term in (2, 3):
            kill(server)
            cluster.end_terms()
            server, _ = cluster.start_server(port)
            eventually(partial(have_answered, cluster, term))
        cluster.finish(job_id)
        assert cluster.begun() == begun
        assert [(one.attempt, one.state) for one in cluster.attempts(job_id)] == [(0, 4)] * 2


@pytest.mark.nightly
def test_another_server_leads_on_when_the_leader_is_killed(
    database_url: str, tmp_path: Path
) -> None:
    with running(database_url, tmp_path, tick=0.05) as cluster:
        leader, _ = cluster.start_server()
        eventually(lambda: cluster.fetch("select 1 from holdfast.leadership where epoch = 1"))
        cluster.start_server()  # whom the workers and the client talk to
        for name in ("w0", "w1"):
            cluster.hire(name)
        job_id = cluster.submit_gang(2, lease=60.0)
        begun = cluster.await_begun((job_id, 0, 0), (job_id, 1, 0))
        kill(leader)
        cluster.end_terms()
        eventually(partial(have_answered, cluster, 2))
        cluster.finish(job_id)
        assert cluster.begun() == begun
        assert [(one.attempt, one.state) for one in cluster.attempts(job_id)] == [(0, 4)] * 2


def have_answered(cluster: Cluster, epoch: int) -> bool:
    """Tell whether every worker has been called in a term, and its answer stored."""
    query = "select answered_epoch from holdfast.workers where lost_at is null"
    return {row.answered_epoch for row in cluster.fetch(query)} == {epoch}


@pytest.mark.nightly
def test_what_a_stopped_worker_had_is_taken_over_and_its_late_report_is_refused(
    database_url: str, tmp_path: Path
) -> None:
    with running(database_url, tmp_path, tick=0.2) as cluster:
        cluster.start_server()
        workers = {name: cluster.hire(name) for name in ("w0", "w1")}
        job_id = cluster.submit_gang(1, lease=4.0)
        [first] = cluster.await_begun((job_id, 0, 0))
        stopped = name_of(cluster.worker_of(job_id, 0))
        find_child(workers[stopped]).suspend()
        begun = cluster.await_begun((job_id, 0, 1))
        assert is_gone(first.pid)  # its shim was not stopped
        [ended] = cluster.attempts(job_id)
        [placed] = cluster.placements(job_id, 1)
        assert (ended.state, ended.error) == (WORKER_FAILED, "lease expired")
        assert placed.ts >= ended.last_lease_expires_at
        assert name_of(cluster.worker_of(job_id, 0)) != stopped
        assert len(cluster.folders(stopped)) == 1
        find_child(workers[stopped]).resume()
        # It tells of the end, is told that nobody wants to know, and forgets it.
        eventually(lambda: not cluster.folders(stopped))
        assert cluster.attempts(job_id) == [ended]
        assert_no_overlap(cluster, job_id, begun)
        cluster.finish(job_id)
        assert cluster.begun() == begun
        assert len(begun) == 2


@pytest.mark.nightly
def test_a_host_that_was_frozen_ends_its_tasks_when_it_goes_on(
    database_url: str, tmp_path: Path
) -> None:
    with running(database_url, tmp_path, tick=0.2) as cluster:
        cluster.start_server()
        workers = {name: cluster.hire(name) for name in ("w0", "w1")}
        job_id = cluster.submit_gang(1, lease=4.0)
        [first] = cluster.await_begun((job_id, 0, 0))
        stopped = name_of(cluster.worker_of(job_id, 0))
        [folder] = cluster.folders(stopped)
        frozen = [
            find_child(workers[stopped]),
            find_shim(folder),
            psutil.Process(first.pid),
        ]
        with thawed_at_last(frozen):
            cluster.await_begun((job_id, 0, 1))
            assert not is_gone(first.pid)
            resume(frozen[1:])
            eventually(lambda: is_gone(first.pid))  # by its shim alone
        eventually(lambda: not cluster.folders(stopped))
        cluster.finish(job_id)
        [first_end, last_end] = cluster.attempts(job_id)
        assert (first_end.state, first_end.error) == (WORKER_FAILED, "lease expired")
        assert (last_end.attempt, last_end.state) == (1, 4)
        assert len(cluster.begun()) == 2


@contextmanager
def thawed_at_last(processes: list[psutil.Process]) -> Iterator[None]:
    """Stop processes, and let all go on at the end."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        resume(processes)


def resume(processes: list[psutil.Process]) -> None:
    """Let processes go on; one that does may end the next before its turn comes."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def test_a_worker_whose_answers_are_lost_ends_its_tasks_before_they_start_elsewhere(
    database_url: str, tmp_path: Path
) -> None:
    with running(database_url, tmp_path, tick=0.3) as cluster, called_through_a_proxy() as through:
        cluster.start_server()
        cluster.hire_at("unheard", through.port, through.proxy.url)
        job_id = cluster.submit_gang(1, lease=4.0)
        [first] = cluster.await_begun((job_id, 0, 0))
        cluster.hire("other")
        query = "select 1 from holdfast.workers where answered_at is not null"
        eventually(lambda: len(cluster.fetch(query)) == 2)
        through.proxy.lose_answers()
        begun = cluster.await_begun((job_id, 0, 1))
        assert through.proxy.answers_lost > 0
        assert is_gone(first.pid)
        [ended] = cluster.attempts(job_id)
        [placed] = cluster.placements(job_id, 1)
        assert ended.state == WORKER_FAILED
        assert cluster.last_beat(first) < ended.last_lease_expires_at <= placed.ts
        assert name_of(cluster.worker_of(job_id, 0)) == "other"
        assert_no_overlap(cluster, job_id, begun)
        cluster.finish(job_id)
        assert len(cluster.begun()) == 2


class CalledThrough:
    """A proxy to a port where a worker will listen."""

    def __init__(self) -> None:
        self.port = free_port()
        self.proxy = FaultyProxy(f"http://127.0.0.1:{self.port}")


@contextmanager
def called_through_a_proxy() -> Iterator[CalledThrough]:
    """Run a proxy on a loop of its own for the time of a block."""
    through = CalledThrough()
    thread = LoopThread("proxy")
    thread.run(through.proxy.__aenter__())
    try:
        yield through
    finally:
        thread.run(through.proxy.__aexit__(None, None, None))
        thread.stop()
