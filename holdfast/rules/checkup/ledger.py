"""Whether the ledger keeps up: its schema, dead rows, partitions, chores, and its replicas."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.rules.checkup.findings import Finding, error, ok, some_of, warning
from holdfast.rules.reading.horizon import (
    Holder,
    HorizonLimits,
    describe_holder,
    find_pinning,
    remedy_of,
)

DEAD_ROWS_MIN = 50_000
DEAD_ROWS_SHARE = 1.0  # as many dead as living ones
LATE_WARNING_SECONDS, LATE_ERROR_SECONDS = 30.0, 300.0
REPLICA_WARNING_SECONDS, REPLICA_ERROR_SECONDS = 10.0, 60.0
REPLICA_WARNING_BYTES, REPLICA_ERROR_BYTES = 64 << 20, 1 << 30
MIGRATE = "`holdfast db migrate`"
HIDDEN = "may not be read by this role"


def judge_schema(problem: str | None, *, is_newer: bool) -> Finding:
    """Judge the schema against this program; `problem` says how they differ."""
    if problem is None:
        return ok("schema", "is this program's")
    remedy = "upgrade this program" if is_newer else f"run {MIGRATE} with the newest program"
    return error("schema", problem, remedy)


def judge_hidden_schema(refusal: str) -> Finding:
    """Say that a role cannot even see which schema there is."""
    return error("schema", f"{HIDDEN}: {refusal}", "grant the role what the finding `role` names")


class TableRows(NamedTuple):
    """How many rows of a table live, and how many are dead and still in it."""

    name: str
    live: int
    dead: int


def judge_dead_rows(tables: Sequence[TableRows]) -> list[Finding]:
    """Judge what vacuum has left."""
    full = [
        each
        for each in tables
        if each.dead >= DEAD_ROWS_MIN and each.dead >= each.live * DEAD_ROWS_SHARE
    ]
    if not full:
        return [ok("dead rows", "vacuum keeps up")]
    found = some_of(f"{each.dead:,} in {each.name}, beside {each.live:,} live" for each in full)
    remedy = f"end what holds up vacuum, then `vacuum holdfast.{full[0].name}`; see autovacuum"
    return [warning("dead rows", found, remedy)]


def judge_horizon(holders: Sequence[Holder]) -> list[Finding]:
    """Name who keeps vacuum from removing dead rows, and how to end that."""
    pinning = find_pinning(holders, HorizonLimits())
    if not pinning:
        return [ok("vacuum horizon", "nobody holds it up")]
    return [warning("vacuum horizon", describe_holder(each), remedy_of(each)) for each in pinning]


def judge_partitions(last_job_id: int, end_job_id: int) -> Finding:
    """Judge whether the next ids have a range to go to; a submission that finds none adds one."""
    if last_job_id < end_job_id:
        return ok(
            "partitions", f"ids are at {last_job_id:,}, ranges are there up to {end_job_id:,}"
        )
    remedy = "run a server, whose chores add ranges; see its log for `keep partitions ahead`"
    return warning("partitions", f"id {last_job_id:,} has no range yet", remedy)


class Backlog(NamedTuple):
    """For how long the oldest of what chores do has been due, in seconds; None if nothing is."""

    outbox: float | None = None
    retries: float | None = None
    leases: float | None = None
    schedules: float | None = None
    expiries: float | None = None


def judge_backlog(backlog: Backlog) -> list[Finding]:
    """Judge whether anybody does the chores."""
    texts = {
        "outbox": "what follows from cancels and ends has been due for {} s",
        "retries": "a retry has been due for {} s",
        "leases": "a lease ran out {} s ago and was not ended",
        "schedules": "a schedule has been due for {} s and has not fired",
        "expiries": "a job expired {} s ago and was not ended",
    }
    late = {name: age for name, age in backlog._asdict().items() if age is not None}
    worst = {name: age for name, age in late.items() if age >= LATE_WARNING_SECONDS}
    if not worst:
        return [ok("chores", "nothing is overdue")]
    remedy = "see that a server runs, and its log: it names the chore that fails, and why"
    return [
        (warning if age < LATE_ERROR_SECONDS else error)(
            "chores", texts[name].format(f"{age:.0f}"), remedy
        )
        for name, age in worst.items()
    ]


class ScheduleProblem(NamedTuple):
    """A schedule that could not fire at its last try, and why."""

    name: str
    problem: str


def judge_schedules(problems: Sequence[ScheduleProblem]) -> list[Finding]:
    """Judge schedules by what keeps them from firing; some of many are named."""
    return [
        warning(
            f"schedule {name}",
            f"cannot fire: {problem}",
            f"mend that, or set the schedule anew; `holdfast schedules show {shlex.quote(name)}`",
        )
        for name, problem in problems
    ]


class Standby(NamedTuple):
    """A standby as its primary sees it; without the rights to see it, what is hidden is None."""

    name: str
    state: str | None
    sync_state: str | None
    seconds: float | None
    bytes_behind: int | None


def judge_standbys(standbys: Sequence[Standby], synchronous_names: str) -> list[Finding]:
    """Judge standbys by what they have not replayed yet."""
    findings = []
    synchronous = [each for each in standbys if each.sync_state in ("sync", "quorum")]
    if synchronous_names and not synchronous and not any(s.sync_state is None for s in standbys):
        findings.append(
            error(
                "synchronous standby",
                f"none is connected, and commits wait for one ({synchronous_names})",
                "start the standby, or take it out of synchronous_standby_names",
            )
        )
    for each in standbys:
        findings.append(judge_lag(f"standby {each.name}", each.seconds, each.bytes_behind))
    return findings


def judge_lag(check: str, seconds: float | None, bytes_behind: int | None) -> Finding:
    """Judge by how much a replica is behind its primary."""
    if bytes_behind is None and seconds is None:
        return ok(check, "its lag is hidden: grant pg_monitor to the role to see it")
    behind = f", {bytes_behind:,} bytes" if bytes_behind else ""
    late, missing = seconds or 0.0, bytes_behind or 0
    if late < REPLICA_WARNING_SECONDS and missing < REPLICA_WARNING_BYTES:
        return ok(check, f"is {late:.1f} s behind{behind}")
    remedy = (
        "see whether its replay is paused (`select pg_wal_replay_resume()`), a query there holds "
        "it up (max_standby_streaming_delay), or its disk or network is too slow; until then read "
        "from the primary"
    )
    found = f"is {late:.0f} s behind{behind}"
    is_grave = late >= REPLICA_ERROR_SECONDS or missing >= REPLICA_ERROR_BYTES
    return (error if is_grave else warning)(check, found, remedy)
