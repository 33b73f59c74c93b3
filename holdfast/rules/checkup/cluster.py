"""Whether servers and workers are well: versions, calls, clocks, certificates, disks, chores."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.rules.checkup.findings import Finding, error, ok, some_of, warning

SERVER_SILENT_SECONDS = 45.0
CHORE_LATE_SECONDS = 30.0
CERTIFICATE_WARNING_DAYS = 30.0
DISK_WARNING_SHARE, DISK_ERROR_SHARE = 0.10, 0.02
DAY_SECONDS = 86_400.0
UNKNOWN_VERSION = "not told"


class Program(NamedTuple):
    """A program by its kind and name, and its version; None from before they told it."""

    kind: str
    name: str
    version: str | None


def judge_versions(programs: Sequence[Program]) -> list[Finding]:
    """Judge whether all run the same version; an upgrade on its way is no error."""
    by_version: dict[str, list[Program]] = {}
    for each in programs:
        by_version.setdefault(each.version or UNKNOWN_VERSION, []).append(each)
    if len(by_version) <= 1:
        return [ok("versions", f"all are of {version}") for version in by_version]
    found = "; ".join(
        f"{version}: {some_of(f'{each.kind} {each.name}' for each in of)}"
        for version, of in sorted(by_version.items())
    )
    remedy = "finish the upgrade: servers first, then workers; two neighbouring versions may mix"
    return [warning("versions", f"{len(by_version)} at once: {found}", remedy)]


class ChoreState(NamedTuple):
    """By how much a chore of a server is late, and how it failed last."""

    name: str
    late_seconds: float
    error: str | None


class ServerState(NamedTuple):
    """A server as it was last heard of."""

    name: str
    silent_seconds: float
    chores: Sequence[ChoreState] = ()


def judge_servers(servers: Sequence[ServerState]) -> list[Finding]:
    """Judge who serves, and whose chores are late."""
    live = [each for each in servers if each.silent_seconds < SERVER_SILENT_SECONDS]
    if not live:
        found = "none has been heard of lately: no lease is ended, and no retry made ready"
        remedy = (
            "start one with `holdfast server`; one of a version that knows no migration after 25 "
            "may be at work, and says nothing of itself: go on with the upgrade"
        )
        return [error("servers", found, remedy)]
    findings = [ok("servers", some_of(each.name for each in live))]
    for server in servers:
        if server not in live:
            found = f"{server.name} has not been heard of for {server.silent_seconds:.0f} s"
            remedy = "see whether it runs and reaches Postgres; a server that has ended says so"
            findings.append(warning("servers", found, remedy))
            continue
        for chore in server.chores:
            if chore.late_seconds < CHORE_LATE_SECONDS and chore.error is None:
                continue
            why = f": {chore.error}" if chore.error else ""
            found = f"`{chore.name}` of {server.name} is {chore.late_seconds:.0f} s late{why}"
            remedy = "see that server's log; restart it if the chore hangs"
            findings.append(warning("chores of servers", found, remedy))
    return findings


class WorkerState(NamedTuple):
    """A worker that has not left, as its server judges it; commands take its id, not its name."""

    worker_id: str
    name: str
    health: str
    address: str | None = None
    last_failure: str | None = None
    failures: int = 0
    holds: int = 0


def judge_workers(workers: Sequence[WorkerState]) -> list[Finding]:
    """Judge who does not answer, and say how the last call failed."""
    findings = [judged for each in workers if (judged := _judge_worker(each)) is not None]
    well = sum(each.health == "healthy" for each in workers)
    if not workers:
        return [warning("workers", "none is registered", "start one with `holdfast worker`")]
    return [ok("workers", f"{well} of {len(workers)} are healthy"), *findings]


def _judge_worker(worker: WorkerState) -> Finding | None:
    check = f"worker {worker.name}"
    if worker.failures and worker.address is not None:
        found = f"cannot be called at {worker.address}: {worker.last_failure or 'no answer'}"
        remedy = (
            "see that it runs, that servers reach this address (--advertise, firewall), and that "
            "its certificate is one they trust"
        )
        return (error if worker.health == "lost" else warning)(check, found, remedy)
    if worker.health == "silent":
        held = f", and holds {worker.holds}" if worker.holds else ""
        remedy = "see that it runs and reaches its server; its leases end by themselves"
        return warning(check, f"has not been heard of for a while{held}", remedy)
    if worker.health == "failing":
        remedy = f"`holdfast workers attempts {worker.worker_id} --unsuccessful` shows why"
        return warning(check, "most attempts that ended there have failed", remedy)
    return None


def judge_certificate(whose: str, seconds_left: float) -> Finding:
    """Judge for how long a certificate is still good."""
    check, days = f"certificate of {whose}", seconds_left / DAY_SECONDS
    remedy = "issue a new one (`holdfast ca issue`) and put it in the place of the old files"
    if days < 0:
        return error(check, f"expired {-days:.1f} days ago", remedy)
    if days <= CERTIFICATE_WARNING_DAYS:
        return warning(check, f"expires in {days:.1f} days", remedy)
    return ok(check, f"is good for {days:.0f} days")


class Disk(NamedTuple):
    """The file system of a folder."""

    whose: str
    folder: str
    total_bytes: int
    free_bytes: int


def judge_disk(disk: Disk) -> Finding:
    """Judge how full a file system is; one that cannot be written is full, too."""
    check = f"disk of {disk.whose}"
    share = disk.free_bytes / disk.total_bytes if disk.total_bytes else 0.0
    found = f"{disk.folder}: {disk.free_bytes:,} of {disk.total_bytes:,} bytes are free"
    if share > DISK_WARNING_SHARE:
        return ok(check, found)
    remedy = "make room, or move the folder to a larger disk; shorten --retention-days"
    return (error if share <= DISK_ERROR_SHARE else warning)(check, found, remedy)


def judge_leader(workers_placed: int, leader: Mapping[str, bool]) -> list[Finding]:
    """Judge whether somebody places work; `leader` is who has the term, and whether it lasts."""
    if not workers_placed or any(leader.values()):
        return []
    remedy = "see that a server runs: whichever is free takes the lead within 10 s"
    return [error("leader", "no server leads, so no work is placed", remedy)]
