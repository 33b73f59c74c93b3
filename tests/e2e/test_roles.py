"""Everything by plain roles: one for all, or an owner and a user of the schema."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest

from holdfast.embedded import EmbeddedPostgres
from tests.cli.conftest import Service, living, served_at
from tests.cli.program import eventually, run
from tests.conftest import run_sql

ROOM = ("--cpu=1", "--memory=1GB", "--disk=1GB", "--drain-seconds=1")


# What is decided by tables and functions of its own.
SET_UP = (
    ("limits", "set", "customers", "--per=key", "--slots=1"),
    ("limits", "set", "pace", "--per=queue", "--rate=1000/s"),
    ("shares", "set", "default", "--by=owner"),
    ("schedules", "set", "beat", "--every=1h", "--queue=default", "--", "true"),
    ("schedules", "run", "beat"),
)


class Roles(NamedTuple):
    """Where the database is for who migrates, and for who serves."""

    owner_url: str
    server_url: str
    server_role: str


@pytest.fixture(params=["one", "two"])
def roles(request: pytest.FixtureRequest, postgres: EmbeddedPostgres) -> Iterator[Roles]:
    """An empty database, and plain roles as an administrator would make them."""
    number = uuid4().hex
    name, owner, server = f"roles_{number}", f"owner_{number}", f"server_{number}"
    everywhere, here = postgres.url(), postgres.url(name)
    made = [f"create role {owner} login", f"create database {name}"]
    if request.param == "two":
        made.append(f"create role {server} login")
        allowed = f"create schema holdfast authorization {owner}"
    else:
        server = owner
        allowed = f"grant create on database {name} to {owner}"
    asyncio.run(run_sql(everywhere, *made))
    asyncio.run(run_sql(here, allowed))
    owner_url, server_url = (here.replace("postgres@", f"{role}@") for role in (owner, server))
    yield Roles(owner_url, server_url, server)
    gone = [f"drop database {name} with (force)", f"drop role {owner}"]
    asyncio.run(run_sql(everywhere, *gone, *([f"drop role {server}"] if server != owner else [])))


def read_logs(folder: Path) -> str:
    """Read what servers have logged."""
    return "".join(file.read_text() for file in folder.glob("server-*.log"))


def test_roles_without_superuser_rights_migrate_serve_work_and_audit(
    roles: Roles, tmp_path: Path
) -> None:
    as_owner, as_server = ("--database-url", roles.owner_url), ("--database-url", roles.server_url)
    assert run("db", "migrate", *as_owner).code == 0
    if roles.owner_url != roles.server_url:
        early = run("db", "check", *as_server)
        assert (early.code, early.out) == (2, "")
        assert "permission denied" in early.err
        assert "holdfast db grant" in early.err
        granted = run("db", "grant", roles.server_role, *as_owner)
        assert (granted.code, granted.err) == (0, "")
        assert f"grant usage on schema holdfast to {roles.server_role};" in granted.out
    with living(
        tmp_path,
        *("server", *as_server, "--port=0"),
        HOLDFAST_OBJECT_STORE=str(tmp_path / "objects"),
        HOLDFAST_HEARTBEAT_SECONDS="0.2",
    ) as server:
        service = Service(served_at(server), tmp_path)
        with living(
            tmp_path,
            *("worker", "--name=hands", "--queue=default", "--placed", "--allow-commands", *ROOM),
            HOLDFAST_SERVER=service.url,
            HOLDFAST_WORKER_DIR=str(tmp_path / "workers"),
        ):
            eventually(lambda: service.find_worker("hands"))
            for command in SET_UP:
                told = service.run(*command)
                assert told.code == 0, (told, read_logs(tmp_path)[-3000:])
            alone = ("--unique", "--chain=c", "--expires=60s", "--concurrency-key=k")
            for flags in ((), alone, ("--placed",), ("--replicas=1", "--gang", "--cpu=1")):
                ended = service.run("run", *flags, "--", "echo", "done")
                assert ended.code == 0, (ended, read_logs(tmp_path)[-3000:])
                assert "done" in ended.out
    for at in (as_owner, as_server):
        audited = run("audit", *at)
        assert (audited.code, audited.out) == (0, ""), audited
    assert "permission denied" not in read_logs(tmp_path)
