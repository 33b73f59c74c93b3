"""A checkup: reads what can be seen of Postgres, of the ledger and of the cluster, and judges it.

One look that fails, for want of a right or of a table, is a finding itself and keeps no other from
being taken.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from asyncpg import InsufficientPrivilegeError, PostgresError

from holdfast.errors import SchemaMismatch, Unavailable
from holdfast.model.addresses import is_loopback, postgres_address, postgres_hosts
from holdfast.rules.checkup import cluster, ledger, postgres
from holdfast.rules.checkup.findings import Finding, error, ok
from holdfast.rules.reading.attention import RECENT
from holdfast.services.presence import measure_folder
from holdfast.store.database import Database
from holdfast.store.migrate import check_schema
from holdfast.store.pooler import find_pool_mode
from holdfast.store.reads.upkeep import checkup as reads
from holdfast.store.reads.upkeep.horizon import list_holders
from holdfast.store.reads.workers.workers import HEALTH, WorkerRow, list_workers
from holdfast.store.tables.workers.servers import ServerRow, list_servers
from holdfast.wire.checkup import FolderReport, ServerReport

WORKERS_MAX = 1000
REPLAY_LOOK_SECONDS = 0.2
# HTTP has whole seconds, and a registration takes a moment.
WORKER_CLOCK_SECONDS = 2.0
Look = Callable[[Database], Awaitable[Sequence[Finding]]]


async def examine_database(
    url: str, *, program: str, is_heard: bool, replica_url: str | None = None
) -> list[Finding]:
    """Look at a Postgres and its ledger as a server would find them."""
    try:
        mode = await find_pool_mode(url)
        findings = postgres.judge_pooler(mode, is_heard=is_heard)
        if mode in ("statement", "exhausted"):
            return findings
        async with Database(url, connections_max=1, program=program) as database:
            findings += await examine(database, url)
            if replica_url is not None:
                findings += await _examine_replica(database, replica_url, program)
            return findings
    except (Unavailable, PostgresError) as refused:
        return [postgres.judge_refusal(str(refused), postgres_address(url))]


async def examine(database: Database, url: str) -> list[Finding]:
    """Look at a Postgres that answers; what needs the ledger is left out where there is none."""
    clock = await _look(database, "clock", _check_own_clock)
    findings = [*clock, *await _look(database, "settings", _check_settings(url))]
    schema = await _check_schema(url)
    findings.append(schema)
    looks: dict[str, Look] = {
        "role": _check_role,
        "connections": _check_connections,
        "vacuum": _check_vacuum,
        "vacuum horizon": _check_horizon,
        "partitions": _check_partitions,
        "chores": _check_backlog,
        "schedules": _check_schedules,
        "standbys": _check_standbys,
        "servers": _check_cluster,
    }
    if schema.severity == "error":  # whatever stands there, it is not what these know how to read
        looks = {"vacuum horizon": _check_horizon, "standbys": _check_standbys}
        if schema.found.startswith(ledger.HIDDEN):
            looks["role"] = _check_role
    for check, look in looks.items():
        findings += await _look(database, check, look)
    return findings


async def _look(database: Database, check: str, look: Look) -> Sequence[Finding]:
    try:
        return await look(database)
    except PostgresError as refused:
        remedy = "grant the role what it lacks; see the finding `role`, and `holdfast db check`"
        return [error(check, f"could not be looked at: {refused}", remedy)]


async def _check_own_clock(database: Database) -> list[Finding]:
    """Compare clocks, in the middle of a question; the ledger's may be another than Postgres's."""
    asked_at = datetime.now(UTC)
    try:
        now = await reads.read_ledger_clock(database)
    except PostgresError:  # no ledger yet
        now = (await reads.read_server_clock(database)).now
    answered_at = datetime.now(UTC)
    half = (answered_at - asked_at) / 2
    skew = (asked_at + half - now).total_seconds()
    return [postgres.judge_clock("this host", skew, uncertain_seconds=half.total_seconds())]


def _check_settings(url: str) -> Look:
    async def check(database: Database) -> list[Finding]:
        settings = await reads.read_settings(database, postgres.SETTINGS)
        findings = postgres.judge_settings(settings)
        findings.append(
            postgres.judge_transaction_ids(await reads.read_transaction_id_age(database))
        )
        folder = _local_folder(url, settings.get("data_directory"))
        if folder is not None:
            findings.append(_judge_folder("Postgres", folder))
        return findings

    return check


def _local_folder(url: str, folder: str | None) -> FolderReport | None:
    """Measure the disk of a Postgres on this host; of others nothing can be seen from here."""
    hosts = postgres_hosts(url)
    is_here = all(host.startswith("/") or is_loopback(host) for host in hosts)
    if not folder or not hosts or not is_here or not Path(folder).is_dir():
        return None
    return measure_folder("Postgres", Path(folder))


def _judge_folder(whose: str, found: FolderReport) -> Finding:
    return cluster.judge_disk(
        cluster.Disk(whose, found.folder, found.total_bytes, found.free_bytes)
    )


async def _check_schema(url: str) -> Finding:
    try:
        await check_schema(url)
    except SchemaMismatch as mismatch:
        text = str(mismatch)
        return ledger.judge_schema(text, is_newer="older than the schema" in text)
    except InsufficientPrivilegeError as refused:
        return ledger.judge_hidden_schema(str(refused))
    return ledger.judge_schema(None, is_newer=False)


async def _check_role(database: Database) -> list[Finding]:
    role = await reads.read_role(database)
    return [postgres.judge_role(role, await reads.list_missing_rights(database))]


async def _check_connections(database: Database) -> list[Finding]:
    settings = await reads.read_settings(database, postgres.SETTINGS)
    reserved = ("superuser_reserved_connections", "reserved_connections")
    found = postgres.Connections(
        limit=int(settings["max_connections"]),
        reserved=sum(int(settings.get(name, 0)) for name in reserved),
        used=await reads.count_connections(database),
        servers=len(await _list_live_servers(database)),
    )
    return postgres.judge_connections(found, is_pooled=database.is_pooled)


async def _check_vacuum(database: Database) -> list[Finding]:
    return [
        *postgres.judge_autovacuum_of(await reads.list_unvacuumed(database)),
        *ledger.judge_dead_rows(await reads.list_table_rows(database)),
    ]


async def _check_horizon(database: Database) -> list[Finding]:
    return ledger.judge_horizon(await list_holders(database))


async def _check_partitions(database: Database) -> list[Finding]:
    return [ledger.judge_partitions(*await reads.read_ranges(database))]


async def _check_backlog(database: Database) -> list[Finding]:
    return ledger.judge_backlog(await reads.read_backlog(database))


async def _check_schedules(database: Database) -> list[Finding]:
    return ledger.judge_schedules(await reads.list_schedule_problems(database))


async def _check_standbys(database: Database) -> list[Finding]:
    if (await reads.read_server_clock(database)).is_standby:
        found = "is a standby: nothing can be written there"
        return [error("database", found, "name the primary in HOLDFAST_DATABASE_URL")]
    names = await reads.read_settings(database, ["synchronous_standby_names"])
    standbys = await reads.list_standbys(database)
    return ledger.judge_standbys(standbys, names.get("synchronous_standby_names", ""))


async def _examine_replica(primary: Database, url: str, program: str) -> list[Finding]:
    """Ask a standby how far it is behind where its primary is now."""
    check = "read replica"
    try:
        async with Database(url, connections_max=1, program=program) as replica:
            if not (await reads.read_server_clock(replica)).is_standby:
                return [ok(check, "is no standby; what is written there is at once to be read")]
            position = await reads.read_wal_position(primary)
            await asyncio.sleep(REPLAY_LOOK_SECONDS)  # what is on its way is no lag
            replay = await reads.read_replay(replica, position)
    except (Unavailable, PostgresError) as refused:
        found = postgres.judge_refusal(str(refused), postgres_address(url))
        return [error(check, found.found, found.remedy)]
    seconds = (replay.seconds or 0.0) if replay.bytes_behind else 0.0
    findings = [ledger.judge_lag(check, seconds, replay.bytes_behind)]
    if replay.is_paused:
        remedy = "`select pg_wal_replay_resume()` there"
        findings.append(error(check, "replays nothing: its replay is paused", remedy))
    return findings


async def _list_live_servers(database: Database) -> list[ServerRow]:
    async with database.transaction() as tx:
        servers = await list_servers(tx)
    return [row for row in servers if _silence(row) < cluster.SERVER_SILENT_SECONDS]


async def _check_cluster(database: Database) -> list[Finding]:
    """Look at servers and workers as they have noted themselves in the ledger."""
    async with database.snapshot() as tx:
        servers = await list_servers(tx)
        page = await list_workers(tx, page_size=WORKERS_MAX)
        leader = await reads.read_leader(tx)
        now = await tx.now()
    workers = [
        each
        for each in page.rows
        if each.lost_at is None
        or (each.consecutive_failures and each.lost_at > now - RECENT and not each.replaced_by)
    ]
    live = [row for row in servers if _silence(row) < cluster.SERVER_SILENT_SECONDS]
    placed = sum(each.address is not None and each.lost_at is None for each in workers)
    findings = cluster.judge_servers([_server(row) for row in servers])
    findings += cluster.judge_workers([_worker(row) for row in workers])
    findings += cluster.judge_versions(_programs(live, workers))
    findings += cluster.judge_leader(placed, leader)
    for row in live:
        findings += _judge_report(row, now)
    for each in workers:
        if each.clock_skew_seconds is not None and each.lost_at is None:
            judged = postgres.judge_clock(
                f"worker {each.name}",
                each.clock_skew_seconds,
                uncertain_seconds=WORKER_CLOCK_SECONDS,
            )
            findings += [] if judged.severity == "ok" else [judged]
    return findings


def _judge_report(row: ServerRow, now: datetime) -> list[Finding]:
    report = read_report(row)
    findings = [
        postgres.judge_clock(f"server {row.host}", row.clock_skew_seconds, uncertain_seconds=0.5),
        *(_judge_folder(f"{each.purpose} of {row.host}", each) for each in report.folders),
    ]
    if not report.is_heard:
        judged = postgres.judge_pooler("transaction", is_heard=False)
        findings += [each for each in judged if each.severity != "ok"]
    if report.certificate_expires_at_ms is not None:
        left = report.certificate_expires_at_ms / 1000 - now.timestamp()
        findings.append(cluster.judge_certificate(f"server {row.host}", left))
    return findings


def read_report(row: ServerRow) -> ServerReport:
    """Read what a server said of itself; of another version's words, as much as is known."""
    try:
        return msgspec.json.decode(row.report, type=ServerReport)
    except msgspec.MsgspecError:  # of a version that has another shape for it
        return ServerReport()


def _server(row: ServerRow) -> cluster.ServerState:
    chores = [
        cluster.ChoreState(*msgspec.structs.astuple(each)) for each in read_report(row).chores
    ]
    return cluster.ServerState(f"{row.host} ({row.version})", _silence(row), chores)


def _worker(row: WorkerRow) -> cluster.WorkerState:
    return cluster.WorkerState(
        row.worker_id,
        row.name,
        HEALTH[row.illness],
        row.address,
        row.last_failure or row.lost_cause,
        row.consecutive_failures,
        row.leases,
    )


def _programs(servers: Sequence[ServerRow], workers: Sequence[WorkerRow]) -> list[cluster.Program]:
    # Between releases programs of one version may know different schemas.
    newest = max((row.migration for row in servers), default=0)
    return [
        *(
            cluster.Program(
                "server",
                row.host,
                row.version
                if row.migration == newest
                else f"{row.version}, of migration {row.migration}",
            )
            for row in servers
        ),
        *(cluster.Program("worker", row.name, row.version) for row in workers if not row.lost_at),
    ]


def _silence(row: ServerRow) -> float:
    return (row.now - row.seen_at).total_seconds()
