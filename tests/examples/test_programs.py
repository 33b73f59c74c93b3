"""The programs in `examples/` do what they say, with real servers, workers and databases."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import psycopg
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.cli.conftest import living, served_at
from tests.cli.program import SECONDS_MAX, environment, eventually
from tests.conftest import run_sql
from tests.databases import TEMPLATE
from tests.test_guides import free_port
from tests.tidy import ROOT

EXAMPLES = ROOT / "examples"


class Running(NamedTuple):
    """A server, its database, and a folder for what workers leave."""

    url: str
    database_url: str
    folder: Path

    def variables(self, example: str) -> dict[str, str]:
        """Give a program of an example what it is started with."""
        return {
            "HOLDFAST_SERVER": self.url,
            "HOLDFAST_WORKER_DIR": str(self.folder / example),
            "DATABASE_URL": self.database_url,
            "PYTHONPATH": str(EXAMPLES / example),
        }

    def run(self, example: str) -> str:
        """Run the program of an example to its end, and give what it has printed."""
        ended = subprocess.run(
            [sys.executable, "main.py"],
            check=False,
            cwd=EXAMPLES / example,
            env=environment(**self.variables(example)),
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def close(self) -> None:
        """See that the ledger is in order."""
        asyncio.run(_audit(self.database_url))


async def _audit(database_url: str) -> None:
    async with Database(database_url) as database:
        await assert_audit_is_silent(database)


@pytest.fixture(scope="module")
def running(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A server on a database of its own; in the end, the ledger is in order."""
    folder = tmp_path_factory.mktemp("examples")
    name = f"examples_{uuid4().hex}"
    asyncio.run(run_sql(postgres.url("postgres"), f"create database {name} template {TEMPLATE}"))
    database_url = postgres.url(name)
    with living(folder, "server", "--database-url", database_url, "--port=0") as server:
        found = Running(served_at(server), database_url, folder)
        yield found
        found.close()


def test_a_graph_breaks_is_corrected_and_goes_on(running: Running) -> None:
    worker = ("worker", "--queue=etl", "--import=tasks", "--drain-seconds=1")
    with living(running.folder, *worker, **running.variables("etl")):
        lines = running.run("etl").splitlines()
    assert "JOB_STATE_KILLED" in lines[0]
    assert "'ben;77.50' is no order" in lines[1]
    assert ["1 task" in line for line in lines[2:5]] == [True] * 3
    # Every fourth of 0.50 to 199.50, the corrected one among them.
    sums = {name: 50 * (2 * start + 196) / 2 + 25 for start, name in enumerate(["anna", "ben"])}
    assert [line.split()[0] for line in lines[5:]] == ["david", "carla", "ben", "anna"]
    told = {name: float(cents) for name, cents in (line.split() for line in lines[5:])}
    assert {name: told[name] for name in sums} == sums


def test_a_gang_loses_a_member_and_goes_on_from_its_checkpoint(running: Running) -> None:
    room = ("--cpu=4", "--memory=1GB", "--disk=1GB", "--gpu=0")
    worker = ("worker", "--placed", "--import=tasks", "--drain-seconds=1", *room)
    with living(running.folder, *worker, **running.variables("gang")):
        assert running.run("gang").splitlines() == [
            "[300, 300, 300, 300]",
            "rank 0 of 4, attempt 0",
            "begins at step 0",
            "rank 0 of 4, attempt 1",
            "begins at step 10",
        ]


def test_a_diagnosis_is_encrypted_and_keys_are_rotated(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [
        subprocess.run(
            [sys.executable, "new_key.py"],
            cwd=EXAMPLES / "clinic",
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    worker = ("worker", "--queue=clinic", "--import=tasks", "--drain-seconds=1")
    variables = running.variables("clinic") | {"HOLDFAST_CODEC": "fernet_codec:codec"}
    for keys in (made[0], " ".join(reversed(made))):
        monkeypatch.setenv("CLINIC_KEYS", keys)
        with living(running.folder, *worker, **variables):
            assert running.run("clinic").splitlines() == [
                "Dear patient: Ada has a cold.",
                "The server has ['$holdfast_codec', 'data', 'v'] by fernet",
            ]


def test_an_order_is_confirmed_if_and_only_if_it_is_stored(running: Running) -> None:
    variables = running.variables("shop")
    address = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", address.rpartition(":")[2]]
    shop = subprocess.Popen(command, cwd=EXAMPLES / "shop", env=environment(**variables))
    try:
        worker = ("worker", "--queue=mail", "--import=tasks", "--drain-seconds=1")
        with living(running.folder, *worker, **variables):
            eventually(lambda: answers(address))
            status, made = call(address, "/orders", {"item": "a kettle"})
            assert (status, made["order_id"]) == (201, 1)
            eventually(lambda: call(address, "/orders/1")[1]["confirmed"])
            assert call(address, "/orders", {"item": "a unicorn"})[0] == 409
            assert call(address, "/orders/2")[0] == 404
        with psycopg.connect(running.database_url) as connection:
            query = "select job_id from holdfast.jobs where queue = 'mail'"
            assert connection.execute(query).fetchall() == [(made["job_id"],)]
    finally:
        shop.terminate()
        shop.wait(SECONDS_MAX)


def call(address: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a request to the shop; gives the code and what it has answered."""
    content = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(address + path, data=content), timeout=30) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def answers(address: str) -> bool:
    """Tell whether the shop is open."""
    try:
        return call(address, "/orders/1")[0] == 404
    except OSError:
        return False


def test_days_of_a_cluster_are_played_out_without_a_server() -> None:
    ended = subprocess.run(
        [sys.executable, "main.py"],
        check=True,
        cwd=EXAMPLES / "month",
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("4 days, seed 2026:")
    # In the outage one backup was missed.
    backup = next(line.split() for line in lines if line.startswith("backup") and "s" not in line)
    assert backup == ["backup", "3", "0", "0", "1"]
    waits = {line[:20].strip(): line[20:] for line in lines[-5:]}
    assert next(iter(waits)) == "as it is"
    hours = {name: float(text.split()[3]) for name, text in waits.items()}
    assert hours["two GPU hosts more"] < hours["as it is"] < hours["one gang each"]
