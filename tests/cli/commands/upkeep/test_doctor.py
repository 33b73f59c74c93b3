"""`doctor` on set-ups that are really broken: each is named, with its remedy."""

import json
import shlex
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import asyncpg
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.embedded.binaries import get_binaries
from holdfast.store.migrate import load_schema, migrate
from tests.certificates import TestAuthority
from tests.cli.conftest import LATER_MIGRATION, living, served_at
from tests.cli.program import PROGRAM, Ended, environment, eventually, run
from tests.cli.test_connect import reserved_port
from tests.clock import Clock
from tests.conftest import run_sql
from tests.pgbouncer import running_pgbouncer
from tests.standby import copy

NOBODY = "http://127.0.0.1:1"


def doctor(*arguments: str, **variables: str) -> tuple[int, list[dict[str, str]]]:
    """Have the doctor look; gives the exit code and what it found."""
    ended = run("doctor", "--json", *arguments, **variables)
    assert ended.err == "", ended
    answer = json.loads(ended.out)
    assert answer["healthy"] == (ended.code == 0)
    return ended.code, answer["findings"]


def named(findings: list[dict[str, str]], check: str) -> dict[str, str]:
    """Take the gravest finding of a check; it comes first."""
    found = next((each for each in findings if each["check"] == check), None)
    assert found is not None, findings
    return found


def assert_named(
    findings: list[dict[str, str]], check: str, severity: str, found: str, remedy: str
) -> None:
    """Make sure that something is named as it should be, with what to do about it."""
    one = named(findings, check)
    assert one["severity"] == severity, one
    assert found in one["found"], one
    assert remedy in one["remedy"], one


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A Postgres as people should have it, unlike that of the other tests."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("durable") / "cluster") as postgres:
        postgres.create_database("holdfast")
        yield postgres


@contextmanager
def serving(folder: Path, database_url: str, *flags: str, **variables: str) -> Iterator[str]:
    """Run a server on a database; gives its URL."""
    options = {"HOLDFAST_HEARTBEAT_SECONDS": "0.2", "HOLDFAST_OBJECT_STORE": str(folder / "o")}
    command = ("server", f"--database-url={database_url}", "--port=0", *flags)
    with living(folder, *command, **(options | variables)) as server:
        yield served_at(server)


async def test_a_sound_set_up_has_nothing_to_tell_from_wherever_it_is_looked_at(
    durable: EmbeddedPostgres, tmp_path: Path
) -> None:
    url = durable.url("holdfast")
    await migrate(url)
    with serving(tmp_path, url) as server:
        eventually(lambda: doctor("--server", server)[0] == 0)
        for flags in ([f"--database-url={url}"], [f"--server={server}"]):
            code, findings = doctor(*flags)
            graver = [each for each in findings if each["severity"] != "ok"]
            assert code == 0
            assert [each["check"] for each in graver] == ["workers"]
            checks = {"durability", "schema", "role", "versions", "clock of this host"}
            assert checks <= {each["check"] for each in findings}
        both = doctor(f"--database-url={url}", f"--server={server}")[1]
        assert {each["seen_from"] for each in both} == {"database", "server"}
        assert len({(each["check"], each["found"]) for each in both}) == len(both)
        ended = run("doctor", "--quiet", HOLDFAST_SERVER=server)
        assert (ended.code, ended.out.count("\n")) == (0, 4)
        assert ended.out.startswith("warning workers  none is registered\n")
        assert "-> start one with `holdfast worker`" in ended.out
        assert "0 errors, 1 warning, " in ended.out


async def test_a_wrong_clock(database_url: str, clock: Clock) -> None:
    await clock.advance(-90)
    code, findings = doctor(f"--database-url={database_url}")
    assert code == 1
    assert_named(findings, "clock of this host", "error", "90 s ahead of", "NTP")
    await clock.advance(98)
    found = doctor(f"--database-url={database_url}")[1]
    assert_named(found, "clock of this host", "warning", "8 s behind", "NTP")


async def test_a_pooler_in_session_mode_and_one_without_its_direct_listen_url(
    postgres: EmbeddedPostgres, database_url: str, tmp_path: Path
) -> None:
    direct = f"--listen-database-url={database_url}"
    with running_pgbouncer(postgres.url(), more="pool_mode = session") as pooler:
        findings = doctor(f"--database-url={pooler.url(database_url)}", direct)[1]
    assert_named(findings, "pooler", "warning", "session mode", "pool_mode = transaction")
    assert all(each["check"] != "wake-ups" for each in findings)
    with running_pgbouncer(postgres.url()) as pooler:
        url = pooler.url(database_url)
        with serving(tmp_path, url) as server:
            findings = doctor(f"--database-url={url}", f"--server={server}")[1]
    assert named(findings, "pooler")["severity"] == "ok"
    assert [each["check"] for each in findings].count("wake-ups") == 1
    assert_named(findings, "wake-ups", "warning", "does not pass them on", "--listen-database-url")


async def test_a_pooler_that_cannot_serve_a_server_at_all(
    postgres: EmbeddedPostgres, database_url: str
) -> None:
    more = "pool_mode = session"
    with running_pgbouncer(postgres.url(), connections=1, more=more) as pooler:
        code, findings = doctor(f"--database-url={pooler.url(database_url)}")
    assert code == 1
    assert_named(findings, "pooler", "error", "no connection left", "default_pool_size")
    with running_pgbouncer(postgres.url(), more="pool_mode = statement") as pooler:
        code, findings = doctor(f"--database-url={pooler.url(database_url)}")
    assert code == 1
    assert_named(findings, "pooler", "error", "statement mode", "pool_mode = transaction")


def follow(findings: list[dict[str, str]], check: str, url: str) -> None:
    """Hand what a remedy quotes to psql, as whoever reads it would."""
    for quoted in named(findings, check)["remedy"].split("`")[1::2]:
        command = [str(get_binaries() / "psql"), url, "--command", quoted]
        typed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (typed.returncode, typed.stderr) == (0, ""), quoted


async def test_autovacuum_that_is_off_until_the_remedies_are_typed(tmp_path: Path) -> None:
    table = "autovacuum of tables"
    with EmbeddedPostgres(tmp_path / "lax") as lax:
        url = lax.url()
        await migrate(url)
        for name in ("autovacuum", "synchronous_commit"):
            await run_sql(url, f"alter system set {name} = off")
        await run_sql(
            url,
            "select pg_reload_conf()",
            "alter table holdfast.ready set (autovacuum_enabled = false)",
        )
        code, findings = doctor(f"--database-url={url}")
        for check in ("setting autovacuum", "setting synchronous_commit", table):
            follow(findings, check, url)
        after = doctor(f"--database-url={url}")[1]
    assert all(each["severity"] == "ok" for each in after if "setting" in each["check"])
    assert [each["severity"] for each in after if each["check"] in ("durability", table)] == ["ok"]
    assert code == 1
    remedy = "alter system set autovacuum = on"
    assert_named(findings, "setting autovacuum", "error", "dead rows pile up", remedy)
    assert_named(findings, "setting synchronous_commit", "error", "acknowledged", "= on")
    assert_named(findings, table, "error", "ready", "alter table holdfast.ready reset")


async def test_a_worker_that_cannot_be_called(database_url: str, tmp_path: Path) -> None:
    with serving(tmp_path, database_url) as server, reserved_port() as port:
        register(server, "absent\x1b[2J", address=f"http://127.0.0.1:{port}")
        check = "worker absent\x1b[2J"

        def find() -> Any:
            findings = doctor("--server", server)[1]
            found = [each for each in findings if each["check"] == check]
            return found and found[0]["severity"] == "error" and findings

        findings = eventually(find)
        assert_named(findings, check, "error", f"127.0.0.1:{port}", "--advertise")
        assert "refused" in named(findings, check)["found"].lower()
        shown = run("doctor", f"--server={server}").out
        assert "\x1b" not in shown
        assert r"worker absent\x1b[2J" in shown


def register(server: str, name: str, *, program: str = "holdfast/0.1.0", **more: Any) -> None:
    """Register a worker, as another program would."""
    body = {"worker_id": f"w-{uuid4().hex}", "name": name, "host": "h", "secret": "s" * 40, **more}
    headers = {"Content-Type": "application/json", "User-Agent": program}
    request = Request(f"{server}/internal/worker-register", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=30) as answer:
        assert answer.status == 200


@contextmanager
def shaking_hands(context: ssl.SSLContext) -> Iterator[int]:
    """Listen with a certificate that no server of ours would still start with."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    caller = listening.accept()[0]
                except OSError:
                    return
                with suppress(OSError):
                    context.wrap_socket(caller, server_side=True).close()
                caller.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(30)


def test_a_certificate_that_has_expired_and_one_that_soon_will(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path / "ca")
    trusted = {"HOLDFAST_CA_FILE": str(authority.ca_file)}
    for name, ago, severity, found, remedy in (
        ("old", timedelta(days=3), "error", "certificate has expired", "issue a new one"),
        ("late", timedelta(days=-1), "warning", "expires in", "holdfast ca issue"),
    ):
        days = 2 if name == "old" else 1
        identity = authority.issue(name, days=days, ago=max(ago, timedelta()))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.cert, identity.key)
        with shaking_hands(context) as port:
            url = f"https://127.0.0.1:{port}"
            code, findings = doctor(f"--server={url}", **trusted)
        assert code == 1  # nothing answers behind the good one either
        assert_named(findings, f"certificate of {url}", severity, found, remedy)


async def test_a_schema_that_is_too_old_or_too_new(
    empty_database_url: str, database_url: str
) -> None:
    code, findings = doctor(f"--database-url={empty_database_url}")
    assert code == 1
    assert_named(findings, "schema", "error", "lacks migration 1", "holdfast db migrate")
    assert all("could not be looked at" not in each["found"] for each in findings)
    last = load_schema().migrations[-1].version
    forget = f"delete from holdfast.schema_versions where version = {last}"
    await run_sql(database_url, forget, "drop table holdfast.servers")
    findings = doctor(f"--database-url={database_url}")[1]
    assert_named(findings, "schema", "error", f"lacks migration {last}", "holdfast db migrate")
    await run_sql(database_url, LATER_MIGRATION)
    code, findings = doctor(f"--database-url={database_url}")
    assert code == 1
    assert_named(findings, "schema", "error", "does not know", "upgrade this program")


async def test_two_versions_at_once(database_url: str, tmp_path: Path) -> None:
    later = tmp_path / "later" / "holdfast-9.9.9.dist-info"
    later.mkdir(parents=True)
    (later / "METADATA").write_text("Metadata-Version: 2.1\nName: holdfast\nVersion: 9.9.9\n")
    with (
        serving(tmp_path, database_url) as server,
        serving(tmp_path, database_url, PYTHONPATH=str(later.parent)),
    ):
        register(server, "older", program="node")

        def find() -> Any:
            findings = doctor("--server", server)[1]
            return "9.9.9" in named(findings, "versions")["found"] and findings

        findings = eventually(find)
    assert_named(findings, "versions", "warning", "3 at once: 0.1.0: server ", "servers first")
    assert "not told: worker older" in named(findings, "versions")["found"]


def test_a_schedule_that_cannot_fire(database_url: str, tmp_path: Path) -> None:
    with serving(tmp_path, database_url, "--live-tasks-max=1") as server:
        assert run("submit", "--queue=idle", "--", "true", HOLDFAST_SERVER=server).code == 0
        every = ("schedules", "set", "beat", "--every=1s", "--queue=idle", "--", "true")
        assert run(*every, HOLDFAST_SERVER=server).code == 0

        def find() -> Any:
            findings = doctor("--server", server)[1]
            return any(each["check"] == "schedule beat" for each in findings) and findings

        findings = eventually(find)
    remedy = "holdfast schedules show beat"
    assert_named(findings, "schedule beat", "warning", "live_tasks_max", remedy)


def test_a_disk_that_is_full(database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    # A disk of its own, in a namespace where nobody has to be root to mount one.
    script = f"""
mount -t tmpfs -o size=1m none {folder} && head -c 1040000 /dev/zero > {folder}/filled
exec {PROGRAM} server --database-url='{database_url}' --port=0 --object-store={folder}
"""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, text=True, stderr=sys.stderr
    ) as process:
        try:
            server = served_at(process)

            def find() -> Any:
                findings = doctor("--server", server)[1]
                return any(each["check"].startswith("disk of object") for each in findings) and (
                    findings
                )

            findings = eventually(find)
        finally:
            process.terminate()
    check = f"disk of object store of {socket.gethostname()}"
    assert_named(findings, check, "error", f"{folder}: ", "make room")


async def test_a_role_that_is_missing_and_one_that_lacks_its_rights(database_url: str) -> None:
    absent = database_url.replace("postgres@", "absent@")
    code, findings = doctor(f"--database-url={absent}")
    assert code == 1
    assert_named(findings, "database", "error", 'role "absent" does not exist', "create role")
    role = f"poor_{uuid4().hex}"
    poor = database_url.replace("postgres@", f"{role}@")
    await run_sql(database_url, f"create role {role} login")
    findings = doctor(f"--database-url={poor}")[1]
    assert_named(findings, "schema", "error", "may not be read", "finding `role`")
    assert_named(findings, "role", "error", f"{role} lacks usage on schema", "holdfast db grant")
    await run_sql(
        database_url,
        f"grant usage on schema holdfast to {role}",
        f"grant select on all tables in schema holdfast to {role}",
        f"grant select on all sequences in schema holdfast to {role}",
    )
    code, findings = doctor(f"--database-url={poor}")
    assert code == 1
    assert_named(findings, "role", "error", f"{role} lacks insert on ", "holdfast db grant")
    remedy = shlex.split(named(findings, "role")["remedy"].split("`")[1])
    granted = run(*remedy[1:], f"--database-url={database_url}")
    assert granted.code == 0, granted
    findings = doctor(f"--database-url={poor}")[1]
    assert named(findings, "role")["found"] == f"{role} has the rights that it needs"
    await run_sql(database_url, f"drop owned by {role}", f"drop role {role}")


async def test_a_replica_that_lags(durable: EmbeddedPostgres, tmp_path: Path) -> None:
    url = durable.url("holdfast")
    await migrate(url)
    with copy(durable, tmp_path / "standby") as standby:
        replica = standby.url("holdfast")
        both = (f"--database-url={url}", f"--read-database-url={replica}")
        assert named(doctor(*both)[1], "read replica")["severity"] == "ok"
        await run_sql(replica, "select pg_wal_replay_pause()")
        await run_sql(
            url,
            "select pg_logical_emit_message(false, 'x', repeat('x', 1048576))"
            " from generate_series(1, 80)",
        )
        connection = await asyncpg.connect(replica)
        behind = "select pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())"
        while await connection.fetchval(behind) < 70_000_000:
            pass
        await connection.close()
        code, findings = doctor(*both)
        as_primary = doctor(f"--database-url={replica}")[1]
    assert code == 1
    assert_named(findings, "read replica", "error", "replay is paused", "pg_wal_replay_resume")
    lag = next(e for e in findings if e["check"] == "read replica" and "behind" in e["found"])
    assert (lag["severity"], "bytes" in lag["found"]) == ("warning", True)
    assert named(findings, "standby holdfast")["severity"] == "warning"
    assert_named(as_primary, "database", "error", "is a standby", "HOLDFAST_DATABASE_URL")


def test_nobody_there_and_usage(database_url: str) -> None:
    code, findings = doctor("--server", NOBODY)
    assert code == 1
    assert_named(findings, "server", "error", f"nobody answers at {NOBODY}", "holdfast server")
    ended: Ended = run("doctor", "--database-url", "nonsense://[")
    assert (ended.code, "is not a URL" in ended.err) == (2, True)
    assert run("doctor", "--serer=x").code == 2


@pytest.mark.parametrize("flag", ["--read-database-url", "--listen-database-url"])
def test_a_wrong_url_beside_the_database_is_named_by_its_own_flag(flag: str) -> None:
    refused = run("doctor", "--database-url=postgresql://127.0.0.1:1/x", f"{flag}=postgresql://h:0")
    assert (refused.code, flag in refused.err) == (2, True), refused
