"""The commands of the page on backup, on two clusters, while a worker holds what gets lost."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import holdfast as hf
from holdfast.embedded import EmbeddedPostgres
from holdfast.embedded.binaries import get_binaries
from holdfast.model.work.states import TaskState
from tests.e2e.system import PROGRAM, ROOT, System, eventually, running
from tests.e2e.tasks import ask_for_a_word, note_and_wait, triple
from tests.e2e.test_kills import check_ledger
from tests.guides import reading
from tests.test_guides import free_port

PAGE = (ROOT / "docs" / "backup.md").read_text(encoding="utf-8")
SKIPPED_IDS = 1_000_000


def section(title: str) -> str:
    """Give a section of the page."""
    [found] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """Another cluster, with an empty database in it."""
    with EmbeddedPostgres(tmp_path / "restored") as postgres:
        postgres.create_database("e2e")
        yield postgres


def has_begun(folder: Path, attempt: int = 0) -> bool:
    """Tell whether an attempt has written down that it runs."""
    return (folder / f"attempt-{attempt}").exists()


@pytest.mark.nightly
def test_a_backup_is_restored_and_work_goes_on(tmp_path: Path, restored: EmbeddedPostgres) -> None:
    kept, lost = tmp_path / "kept", tmp_path / "lost"
    for folder in (kept, lost, tmp_path / "operator"):
        folder.mkdir()
    with running(tmp_path, free_port()) as system, system.client() as client:
        path = (get_binaries(), Path(PROGRAM).parent, os.environ["PATH"])
        with reading(
            tmp_path / "operator",
            free_port(),
            PATH=os.pathsep.join(map(str, path)),
            HOLDFAST_DATABASE_URL=system.database_url,
            RESTORED_URL=restored.url("e2e"),
        ) as operator:
            worker = system.start_worker()
            done = client.submit(triple, 14)
            assert done.result(timeout=60) == 42
            open_job = client.submit(note_and_wait, str(kept))
            eventually(lambda: has_begun(kept))
            beat = triple.spec(2)
            client.schedules.set("beat", beat, every=1, catch_up="all", overlap="allow")
            eventually(lambda: client.schedules.firings("beat").firings)
            asked = client.submit(ask_for_a_word)
            eventually(lambda: client.tasks.get(f"{asked.id}.0").waits_for)
            operator.follow(section("Back up"))

            forgotten = client.submit(triple, 1)
            assert forgotten.result(timeout=60) == 3
            held = client.submit(note_and_wait, str(lost))
            eventually(lambda: has_begun(lost))
            stop_server(system)
            operator.follow(section("Restore"))

        pauses = re.findall(r"`(insert into [^`]+|update [^`]+)`", PAGE)
        assert len(pauses) == 2
        with psycopg.connect(restored.url("e2e")) as connection:
            for pause in pauses:
                connection.execute(" ".join(pause.split()).encode())
        before, system.postgres = system.postgres, restored
        before.stop()
        system.start_server()
        check_restored(system, client, done.id, open_job.id)
        for job_id in (forgotten.id, held.id):
            with pytest.raises(hf.NotFound):
                client.job(job_id)
        again = client.submit(triple, 5)
        assert int(again.id) > SKIPPED_IDS, "no id of the lost time is given again"
        assert again.result(timeout=60) == 15
        check_schedule(client)
        client.signal(asked.id, "word", "go")
        assert client.job(asked.id).result(timeout=60) == "go"
        assert worker.poll() is None, "the worker has lived through it"
        assert not has_begun(lost, 1)
        check_ledger(system)


def check_restored(system: System, client: hf.Client, done: str, open_job: str) -> None:
    """See that results are there, that what ran is retried, and that events can be followed."""
    assert client.job(done).result(timeout=60) == 42
    assert client.job(open_job).result(timeout=90) >= 1, "the attempt of the past was ended"
    with psycopg.connect(system.database_url) as connection:
        ends = connection.execute(
            "select state, released_at is not null from holdfast.attempt_history "
            "where job_id = %s and attempt = 0",
            [int(open_job)],
        ).fetchall()
        later = connection.execute(
            "select count(*) from holdfast.events where txid >= txid_current()"
        ).fetchone()
    assert ends == [(TaskState.WORKER_FAILED, True)]
    assert later == (0,), "no event is still to come"


def check_schedule(client: hf.Client) -> None:
    """See that a schedule rests, and fires nothing of the lost time when it goes on."""
    assert client.schedules.get("beat").state == "paused"
    known = {each.instant_ms for each in client.schedules.firings("beat").firings}
    resumed_at_ms = client.overview.get().now_ms
    assert client.schedules.resume("beat")

    def later() -> set[int]:
        found = {each.instant_ms for each in client.schedules.firings("beat").firings}
        return found - known

    eventually(lambda: len(later()) > 1)
    assert min(later()) > resumed_at_ms
    assert client.schedules.get("beat").missed_instants == 0
    client.schedules.delete("beat")


def stop_server(system: System) -> None:
    """Stop the server, as the page asks first; the worker stays."""
    system.server.terminate()
    assert system.server.wait(60) == 0
