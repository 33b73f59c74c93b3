"""The system that is broken: Postgres, two servers, six workers, and a link at every connection.

    customers ──link──►┐                     ┌──link──► Postgres ◄── the runner, directly
    worker 1..6 ─link─►┴── server 1, 2 ──────┘              the record: a Postgres of its own
        ▲                     │
        └───────link──────────┘ calls of placed work

A profile's layout says what stands around that: a pooler, a standby, an SQS, the version before.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import psycopg

from chaos.faults.plan import SERVERS, WORKERS
from chaos.layouts import DEVICES, Layout
from chaos.processes import Host, environment
from chaos.proxy import LOOPBACK, Link, Mood, Port, Target
from chaos.surroundings import Messages, Pair, Pooler
from chaos.workload import later_tasks, record, tasks
from holdfast.client.both import LoopThread
from holdfast.embedded import EmbeddedPostgres
from tests.e2e.system import ROOT
from tests.sqs import ENVIRONMENT
from tests.test_guides import free_port
from tests.upgrade.previous import take_out_previous

LEDGER = "ledger"
RECORD = "record"
# A crash of Postgres is not one of the machine: what was written is there.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "jit": "off", "max_connections": "80"}
READY_SECONDS_MAX = 120.0
MIGRATE_SECONDS_MAX = 300
# What is broken may be slow, too: tests/upgrade shows that a step takes a moment if nothing is.
HOLD_SECONDS = 5.0
CONCURRENCY = 6
ROOM_CPU = 3
# That so much has room for.
ROOM_TASKS = int(ROOM_CPU / tasks.SMALL_CPU)
SQS_PREFIX = "chaos-"
PROGRAM = (sys.executable, "-m", "holdfast.cli.app")
# Another address of loopback for each worker that is called: there its link listens.
CALLED_AT = {name: f"127.0.0.{number}" for number, name in enumerate(WORKERS, 2)}
PRESENT = """
select count(*) filter (where queues <> '{}')::int, count(answered_at)::int
  from holdfast.workers where lost_at is null and replaced_by is null
"""
CLOCK = """
create table public.chaos_clock (shift interval not null);
insert into public.chaos_clock values ('0');
create or replace function holdfast.now() returns timestamptz language sql volatile
    as 'select clock_timestamp() + (select shift from public.chaos_clock)'
"""


class System:
    """All processes and links of a run, by name."""

    def __init__(self, folder: Path, layout: Layout, stack: ExitStack, *, loop: LoopThread) -> None:
        self.folder = folder
        self.layout = layout
        self.links: dict[str, Link] = {}
        self.hosts: dict[str, Host] = {}
        self.pooler: Pooler | None = None
        self.pair: Pair | None = None
        self.messages: Messages | None = None
        self._stack = stack
        self._loop = loop
        self._ports = {name: free_port() for name in (*SERVERS, *WORKERS)}
        self._first = EmbeddedPostgres(folder / "postgres", settings=SETTINGS)
        self._record = EmbeddedPostgres(folder / "record", settings=SETTINGS)
        self._previous: Path | None = None
        self._migrating: subprocess.Popen[bytes] | None = None
        self.is_installed = not layout.upgrades

    @property
    def postgres(self) -> EmbeddedPostgres:
        """The Postgres that has the ledger now."""
        return self._first if self.pair is None else self.pair.primary

    @property
    def ledger_url(self) -> str:
        """Where the ledger is, past all links."""
        return self.postgres.url(LEDGER)

    @property
    def record_url(self) -> str:
        """Where the work keeps its record."""
        return self._record.url(RECORD)

    @property
    def server_url(self) -> str:
        """Where customers find a server: whichever is there."""
        return self._url_of("customers to servers")

    def connect(self) -> "psycopg.Connection[Any]":
        """Connect to the ledger directly."""
        return psycopg.connect(self.ledger_url, autocommit=True, connect_timeout=5)

    def behave(self, name: str, mood: Mood | None) -> None:
        """Break a link; with no mood, mend it."""
        link = self.links[name]
        call = link.mend if mood is None else lambda: link.behave(mood)
        self._loop.loop.call_soon_threadsafe(call)

    def prepare(self) -> None:
        """Start the databases and what stands around them, and make what is in them."""
        for postgres, name in ((self._first, LEDGER), (self._record, RECORD)):
            self._stack.enter_context(postgres)
            postgres.create_database(name)
        with psycopg.connect(self.record_url, autocommit=True) as connection:
            connection.execute(record.SCHEMA)
        if self.layout.upgrades:
            self._previous = take_out_previous(self.folder / "previous")
        first = self.migrate(self._previous or ROOT).wait(MIGRATE_SECONDS_MAX)
        assert first == 0, (self.folder / "migrate.log").read_text()
        with self.connect() as connection:
            connection.execute(record.EFFECTS)
            if not self.layout.upgrades:  # a migration would set the clock right again
                connection.execute(CLOCK)
        if self.layout.has_pooler:
            self.pooler = Pooler(self._first, self._stack)
        if self.layout.has_standby:
            self.pair = Pair(self._first, self.folder, self._stack)
        if self.layout.has_sqs:
            os.environ.update(ENVIRONMENT)
            self.messages = Messages(tasks.QUEUE, SQS_PREFIX, self._stack)

    def migrate(self, version: Path) -> "subprocess.Popen[bytes]":
        """Begin to run the migrations of a version."""
        command = [*PROGRAM, "db", "migrate", "--database-url", self.ledger_url]
        if version == ROOT:
            command += ["--hold-seconds", str(HOLD_SECONDS)]
        with (self.folder / "migrate.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment(PYTHONPATH=_path_of(version)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def start(self) -> None:
        """Open the links, start servers and workers, and wait until the servers are ready."""
        self._open_links()
        for name in SERVERS:
            self._add(name, "server", *self._server_options(name))
        for name in self.layout.workers:
            self._add(name, "worker", *self._worker_options(name))
        for host in self.hosts.values():
            host.start()
        self.await_ready()

    def tend(self) -> None:
        """Start again what has ended."""
        for host in self.hosts.values():
            host.tend()

    def await_ready(self) -> None:
        """Wait until all servers serve."""
        for name in SERVERS:
            self._await_ready(name)

    def await_workers(self) -> None:
        """Wait until every worker has registered, and those that are called have answered."""
        wanted = len(self.layout.claiming), len(self.layout.called)
        ends_at = time.monotonic() + READY_SECONDS_MAX
        with self.connect() as connection:
            while connection.execute(PRESENT).fetchone() != wanted:
                if time.monotonic() > ends_at:
                    raise TimeoutError(f"not all workers have come: {self.layout.workers}")
                time.sleep(0.05)

    def stop(self) -> None:
        """End servers and workers, workers first."""
        for host in reversed(self.hosts.values()):
            host.end()
        if self._migrating is not None:
            self._migrating.kill()
            self._migrating.wait()

    def fail_over(self) -> None:
        """Lose the primary, and have everybody led to the next one."""
        assert self.pair is not None, "this layout has no standby"
        self.pair.fail_over()
        self._lead_to_postgres()

    def add_standby(self) -> None:
        """Give the primary a standby again: without one, there is no other failover."""
        assert self.pair is not None, "this layout has no standby"
        self.pair.add_standby()

    def restart_pooler(self) -> None:
        """Lose the pooler, and have everybody led to the next one."""
        assert self.pooler is not None, "this layout has no pooler"
        self.pooler.restart()
        self._lead_to_postgres()

    def reuse_address(self, name: str) -> None:
        """Have a host die, and another worker come where it was called, which knows nothing."""
        host = self.hosts[name]
        newcomer = f"{name}-{host.starts}"
        host.command[host.command.index("--name") + 1] = newcomer
        host.variables["HOLDFAST_WORKER_DIR"] = str(self.folder / "hosts" / newcomer)
        host.die()

    def install(self) -> bool:
        """Have the schema migrated, beside all else; tells whether it is, when asked again.

        Servers that start from then on are the newest: the version before does not start on a
        schema that is newer than it.
        """
        if self.is_installed:
            return True
        if self._migrating is None:
            self._migrating = self.migrate(ROOT)
        code = self._migrating.poll()
        if code is not None:
            self._migrating, self.is_installed = None, code == 0
        if self.is_installed:
            for name in SERVERS:
                self.hosts[name].variables["PYTHONPATH"] = _path_of(ROOT)
        return self.is_installed

    def finish_upgrade(self) -> None:
        """Wait until the schema is migrated, and have all servers be replaced by the newest."""
        ends_at = time.monotonic() + MIGRATE_SECONDS_MAX
        while not self.install():
            if time.monotonic() > ends_at:
                raise TimeoutError((self.folder / "migrate.log").read_text())
            time.sleep(0.05)
        for name in SERVERS:
            self.change_version(name)

    def change_version(self, name: str) -> None:
        """Have a server replaced by the newest, or a worker by one of the other version."""
        assert self._previous is not None, "this layout has one version"
        before, newest = _path_of(self._previous), _path_of(ROOT)
        is_newest = self.hosts[name].variables["PYTHONPATH"] == newest
        wanted = before if is_newest and name in WORKERS else newest
        self.hosts[name].replace(PYTHONPATH=wanted)

    def _open_links(self) -> None:
        servers = [Port(self._ports[name]) for name in SERVERS]
        for name in SERVERS:
            self._open(f"{name} to postgres", self._doors()[0])
        for name in ("listening to postgres", "tasks to postgres"):
            self._open(name, self._doors()[1])
        for name in ("customers", *self.layout.workers):
            self._open(f"{name} to servers", *servers)
        if not self.layout.upgrades:  # the version before this one had no say where it is called
            for name in self.layout.called:
                port = self._ports[name]
                self._open(f"servers to {name}", Port(port), host=CALLED_AT[name], port=port)
        if self.messages is not None:
            for name in ("servers", "workers"):
                self._open(f"{name} to sqs", Port(self.messages.port))

    def _open(self, name: str, *targets: Target, host: str = LOOPBACK, port: int = 0) -> None:
        link = Link(name, targets, host=host, port=port)
        self._loop.run(link.__aenter__())
        self._stack.callback(lambda: self._loop.run(link.__aexit__()))
        self.links[name] = link

    def _doors(self) -> tuple[Target, Target]:
        """Say where Postgres is found, through the pooler if there is one, and directly."""
        asked = parse_qs(urlsplit(self.ledger_url).query)
        socket = Path(asked["host"][0]) / f".s.PGSQL.{asked['port'][0]}"
        return Port(self.pooler.port) if self.pooler else socket, socket

    def _lead_to_postgres(self) -> None:
        through, directly = self._doors()
        for name, link in self.links.items():
            if name.endswith("to postgres"):
                is_server = name.partition(" ")[0] in SERVERS
                link.targets[:] = [through if is_server else directly]
                self._loop.loop.call_soon_threadsafe(link.reset)

    def _add(self, name: str, *arguments: str) -> None:
        variables = environment(
            PYTHONPATH=_path_of(self._previous or ROOT),
            HOLDFAST_DATA_DIR=str(self.folder / "server"),
            HOLDFAST_WORKER_DIR=str(self.folder / "hosts" / name),
            HOLDFAST_LEASE_MIN="1",
            HOLDFAST_HEARTBEAT_SECONDS="0.5",
            **{record.RECORD_VARIABLE: self.record_url},
            **{record.LEDGER_VARIABLE: self._database_url("tasks to postgres")},
        )
        log = self.folder / f"{name}.log"
        self.hosts[name] = Host(name, [*PROGRAM, *arguments], variables, log)

    def _server_options(self, name: str) -> list[str]:
        where = ["--database-url", self._database_url(f"{name} to postgres")]
        where += ["--port", str(self._ports[name])]
        if self.pooler is not None:
            where += ["--listen-database-url", self._database_url("listening to postgres")]
        return where + self._sqs_options("servers")

    def _worker_options(self, name: str) -> list[str]:
        options = ["--server", self._url_of(f"{name} to servers"), "--name", name]
        options += ["--import", tasks.__name__, "--drain-seconds", "2"]
        if name in self.layout.claiming:
            if self.layout.has_later_work:
                options += ["--import", later_tasks.__name__]
            options += ["--queue", tasks.QUEUE, "--concurrency", str(CONCURRENCY)]
            options += self._sqs_options("workers")
        if name in self.layout.called:
            room = (
                "--cpu",
                str(ROOM_CPU),
                "--memory",
                "4GB",
                "--disk",
                "1GB",
                "--gpu",
                str(DEVICES),
            )
            options += ["--placed", *room]
            if not self.layout.upgrades:
                options += ["--listen", f"{LOOPBACK}:{self._ports[name]}"]
                options += ["--advertise", CALLED_AT[name]]
        return options

    def _sqs_options(self, who: str) -> list[str]:
        if self.messages is None:
            return []
        where = ["--sqs-endpoint-url", self._url_of(f"{who} to sqs"), "--sqs-prefix", SQS_PREFIX]
        return ["--wake-ups", "sqs", *where]

    def _database_url(self, link: str) -> str:
        return f"postgresql://postgres@{LOOPBACK}:{self.links[link].port}/{LEDGER}?sslmode=disable"

    def _url_of(self, link: str) -> str:
        return f"http://{LOOPBACK}:{self.links[link].port}"

    def _await_ready(self, name: str) -> None:
        url = f"http://{LOOPBACK}:{self._ports[name]}/readyz"
        ends_at = time.monotonic() + READY_SECONDS_MAX
        while not _answers(url):
            if time.monotonic() > ends_at:
                log = (self.folder / f"{name}.log").read_text(errors="replace")
                raise TimeoutError(f"{name} is not ready: {log[-2000:]}")
            time.sleep(0.05)


def _path_of(version: Path) -> str:
    """Say where Python looks: in a version's package first, then in this checkout."""
    return str(ROOT) if version == ROOT else os.pathsep.join([str(version), str(ROOT)])


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=10):
            return True
    except HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


@contextmanager
def running(folder: Path, layout: Layout) -> Iterator[System]:
    """Run a system for the time of a block; nothing of it is left."""
    loop = LoopThread("chaos-links")
    try:
        with ExitStack() as stack:
            system = System(folder, layout, stack, loop=loop)
            system.prepare()
            try:
                system.start()
                yield system
            finally:
                system.stop()
    finally:
        loop.stop()
