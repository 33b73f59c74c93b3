"""Databases as the commands may find them, and one running system to try the commands on."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.cli.app import main
from holdfast.cli.commands.processes.server import SERVING_AT
from holdfast.embedded import EmbeddedPostgres
from tests.cli.program import (
    PROGRAM,
    SECONDS_MAX,
    Ended,
    bounded,
    environment,
    eventually,
    run,
    run_on_terminal,
    start,
)
from tests.conftest import run_sql
from tests.databases import TEMPLATE

LATER_MIGRATION = (
    "insert into holdfast.schema_versions (version, name, checksum) "
    "values (9999, 'from_the_future', 'other')"
)


@pytest.fixture
async def empty_database_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A database without a schema."""
    name = f"empty_{uuid4().hex}"
    await run_sql(postgres.url(), f"create database {name}")
    yield postgres.url(name)
    await run_sql(postgres.url(), f"drop database {name} with (force)")


@pytest.fixture
async def newer_database_url(database_url: str) -> str:
    """A database with a schema that only a later program knows."""
    await run_sql(database_url, LATER_MIGRATION)
    return database_url


@pytest.fixture
async def ahead_database_url(newer_database_url: str) -> str:
    """A database of a later program, beside which this one can go on."""
    await run_sql(
        newer_database_url,
        "update holdfast.schema_versions set compatible_with = 1 where version = 9999",
        "update holdfast.schema_definitions set checksum = 'of the later one'",
    )
    return newer_database_url


@pytest.fixture
async def changed_database_url(database_url: str) -> str:
    """A database whose schema another build has made."""
    await run_sql(database_url, "update holdfast.schema_versions set checksum = 'other'")
    return database_url


@pytest.fixture
async def redefined_database_url(database_url: str) -> str:
    """A database with other definitions than this program's."""
    change = "update holdfast.schema_definitions set checksum = 'other' where name = 'views/events'"
    await run_sql(database_url, change)
    return database_url


@pytest.fixture
async def too_old_database_url(empty_database_url: str) -> str:
    """A database from before the first release, of which only what tells so is here."""
    await run_sql(
        empty_database_url,
        "create schema holdfast",
        "create table holdfast.schema_versions (version int primary key, name text not null, "
        "checksum text not null, applied_at timestamptz not null default clock_timestamp())",
        "insert into holdfast.schema_versions (version, name, checksum) "
        "values (1, 'ledger', 'x'), (2, 'guards', 'y')",
    )
    return empty_database_url


@dataclass(frozen=True)
class Service:
    """A running server, and the commands that talk to it."""

    url: str
    folder: Path

    def run(self, *arguments: str, **variables: str) -> Ended:
        """Run a command against this server."""
        return run(*arguments, HOLDFAST_SERVER=self.url, **variables)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command against this server."""
        return bounded(start(*arguments, HOLDFAST_SERVER=self.url, **variables))

    def on_terminal(self, *arguments: str, columns: int = 100) -> str:
        """Run a command on a terminal, and give what stands there then."""
        return run_on_terminal(*arguments, columns=columns, HOLDFAST_SERVER=self.url).out

    def call(self, *arguments: str) -> Ended:
        """Run a command within this process, which is quicker: for what a test needs beside."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*arguments, "--server", self.url])
        return Ended(code, out.getvalue(), err.getvalue())

    def ask(self, *arguments: str) -> Any:
        """Run a command that answers, and read its JSON."""
        ended = self.call(*arguments, "--json")
        assert (ended.code, ended.err) == (0, "")
        return json.loads(ended.out)

    def find_worker(self, name: str) -> Any:
        """Find a worker by its name, if it has registered."""
        workers = self.ask("workers")["workers"]
        return next((each for each in workers if each["name"] == name), None)

    def submit(self, *arguments: str) -> str:
        """Submit something; gives the job's id."""
        ended = self.call("submit", *arguments)
        assert (ended.code, ended.err) == (0, "")
        return ended.out.strip()

    def submit_and_wait(self, *arguments: str) -> str:
        """Submit something and wait for its end, however it ends."""
        job_id = self.submit(*arguments)
        assert self.call("wait", job_id).code in (0, 1)
        return job_id


@contextmanager
def living(
    folder: Path, *arguments: str, program: str = PROGRAM, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a command that goes on, for the time of a block; it is asked to end, and ends well."""
    with open(folder / f"{arguments[0]}-{uuid4().hex}.log", "wb") as log:
        process = subprocess.Popen(
            [program, *arguments],
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
    finally:
        process.kill()
        process.communicate()


def served_at(process: subprocess.Popen[str]) -> str:
    """Wait until a server serves, and take the address from what it says."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(SERVING_AT), line
    return line.removeprefix(SERVING_AT).strip()


@pytest.fixture(scope="session")
def service(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A server and a worker on a database of their own, shared by all tests of the commands."""
    folder = tmp_path_factory.mktemp("service")
    name = f"service_{uuid4().hex}"
    asyncio.run(run_sql(postgres.url("postgres"), f"create database {name} template {TEMPLATE}"))
    database_url = postgres.url(name)
    with living(
        folder,
        *("server", "--database-url", database_url, "--port=0"),
        HOLDFAST_LEASE_MIN="1",
        HOLDFAST_OBJECT_STORE=str(folder / "objects"),
    ) as server:
        found = Service(served_at(server), folder)
        options = ("--queue=default", "--import=tests.cli.tasks", "--drain-seconds=1")
        with living(
            folder,
            *("worker", "--name=handy", "--allow-commands", *options),
            HOLDFAST_SERVER=found.url,
            HOLDFAST_WORKER_DIR=str(folder / "workers"),
        ):
            eventually(lambda: found.find_worker("handy"))
            yield found


@pytest.fixture(scope="session")
def cluster(service: Service) -> Iterator[Service]:
    """The same server, with a worker for placed work beside the other one."""
    options = ("--import=tests.cli.tasks", "--drain-seconds=1")
    resources = ("--cpu=4", "--memory=1GB", "--disk=1GB", "--gpu=2:H100")
    attributes = ("--attribute=region=eu", "--attribute=rack=r7", "--attribute=nvme=true")
    with living(
        service.folder,
        *("worker", "--placed", "--name=roomy", "--allow-commands"),
        *(*options, *resources, *attributes),
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(service.folder / "placed"),
    ):
        eventually(lambda: service.find_worker("roomy"))
        yield service
