"""Whether a Postgres is set up for what is promised: settings, connections, pooler, rights."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from holdfast.rules.checkup.findings import Finding, error, ok, some_of, warning

PoolMode = Literal["none", "session", "transaction", "statement", "exhausted"]
SKEW_WARNING_SECONDS, SKEW_ERROR_SECONDS = 2.0, 30.0
CONNECTIONS_PER_SERVER = 16
CONNECTIONS_FULL = 0.9
XID_AGE_WARNING, XID_AGE_ERROR = 1_000_000_000, 1_800_000_000
SETTINGS = (
    *("fsync", "full_page_writes", "synchronous_commit", "autovacuum", "track_counts"),
    *("max_connections", "superuser_reserved_connections", "reserved_connections"),
    *("data_directory", "synchronous_standby_names", "server_version"),
)
_RELOAD = "`alter system set {name} = on;` and then `select pg_reload_conf();`"
_MISSING_ROLE = re.compile(r'role "(.+)" does not exist')
_MISSING_DATABASE = re.compile(r'database "(.+)" does not exist')
# What each of them breaks when it is off.
_ON = {
    "fsync": "a crash of the host can destroy the database",
    "full_page_writes": "a crash of the host can tear pages",
    "synchronous_commit": "a crash can lose what was acknowledged in the last moments",
    "autovacuum": "dead rows pile up in the queues, and claims become slow",
    "track_counts": "autovacuum does not know where dead rows are",
}


def judge_clock(whose: str, skew_seconds: float, *, uncertain_seconds: float = 0.0) -> Finding:
    """Judge by how much a clock differs from the database's; that is the clock of all leases."""
    check = f"clock of {whose}"
    off = max(abs(skew_seconds) - uncertain_seconds, 0.0)
    if off < SKEW_WARNING_SECONDS:
        return ok(check, "agrees with that of the database")
    found = f"is {off:.0f} s {'ahead of' if skew_seconds > 0 else 'behind'} that of the database"
    remedy = (
        "run an NTP client (chrony, systemd-timesyncd) on both hosts: certificates, tokens, times "
        "of submission and of logs go wrong"
    )
    return (warning if off < SKEW_ERROR_SECONDS else error)(check, found, remedy)


def judge_settings(settings: Mapping[str, str]) -> list[Finding]:
    """Judge settings that make Postgres forget, or let it fill with dead rows."""
    findings = [
        error(f"setting {name}", f"is off: {why}", _RELOAD.format(name=name))
        for name, why in _ON.items()
        if settings.get(name) == "off"
    ]
    return findings or [ok("durability", "commits are on disk before they are acknowledged")]


def judge_autovacuum_of(tables: Sequence[str]) -> list[Finding]:
    """Judge tables for which autovacuum was switched off one by one."""
    if not tables:
        return []
    remedy = f"`alter table holdfast.{tables[0]} reset (autovacuum_enabled)`, for each of them"
    return [error("autovacuum of tables", f"is off for {some_of(tables)}", remedy)]


class Connections(NamedTuple):
    """How many connections there may be, are, and will be wanted."""

    limit: int
    reserved: int
    used: int
    servers: int


def judge_connections(found: Connections, *, is_pooled: bool) -> list[Finding]:
    """Judge whether every server can have its connections; a pooler shares them out."""
    check, room = "connections", found.limit - found.reserved
    wanted = found.servers * CONNECTIONS_PER_SERVER
    remedy = "raise max_connections (needs a restart), or put a pooler in transaction mode between"
    if found.used >= room * CONNECTIONS_FULL:
        text = f"{found.used} of {room} are in use"
        return [(error if found.used >= room else warning)(check, text, remedy)]
    if wanted > room and not is_pooled:
        text = f"{found.servers} servers want up to {wanted}, and there may be {room}"
        return [warning(check, text, remedy)]
    return [ok(check, f"{found.used} of {room} in use")]


def judge_pooler(mode: PoolMode, *, is_heard: bool) -> list[Finding]:
    """Judge how a pooler shares connections, and whether wake-ups come past it."""
    direct = "name Postgres itself with --listen-database-url (HOLDFAST_LISTEN_DATABASE_URL)"
    findings = []
    match mode:
        case "none":
            return [ok("pooler", "Postgres answers directly")]
        case "transaction":
            findings = [ok("pooler", "shares connections between transactions")]
        case "session":
            found = "is in session mode: every connection of a server keeps one of Postgres"
            remedy = "set pool_mode = transaction in the pooler, or connect to Postgres directly"
            findings = [warning("pooler", found, remedy)]
        case "exhausted":
            found = "has no connection left for a second session, although the first is idle"
            remedy = "set pool_mode = transaction in the pooler, and a larger default_pool_size"
            findings = [error("pooler", found, remedy)]
        case "statement":
            found = "is in statement mode, in which there are no transactions"
            remedy = "set pool_mode = transaction in the pooler"
            findings = [error("pooler", found, remedy)]
    if is_heard:
        return findings
    found = "a pooler does not pass them on: work is found by looking, up to a second later"
    return [*findings, warning("wake-ups", found, direct)]


def judge_role(role: str, missing: Sequence[str]) -> Finding:
    """Judge whether a role may do what a server does; `missing` are rights, as in a grant."""
    if not missing:
        return ok("role", f"{role} has the rights that it needs")
    remedy = f"with the URL of the schema's owner: `holdfast db grant {shlex.quote(role)}`"
    return error("role", f"{role} lacks {some_of(missing)}", remedy)


def judge_transaction_ids(age: int) -> Finding:
    """Judge how near the database is to running out of transaction ids."""
    check, found = "transaction ids", f"the oldest is {age:,} transactions old"
    if age < XID_AGE_WARNING:
        return ok(check, found)
    remedy = (
        "find out what holds up vacuum, then `vacuum (freeze)`; Postgres stops at 2,147,483,647"
    )
    return (warning if age < XID_AGE_ERROR else error)(check, found, remedy)


def judge_refusal(message: str, address: str) -> Finding:
    """Name why a database cannot be reached, and what to do; the message is that of Postgres."""
    check, found = "database", message
    text = message.lower()
    if role := _MISSING_ROLE.search(message):
        remedy = (
            f"create it, `create role {_identifier(role[1])} login`, then with the URL of the "
            f"schema's owner: `holdfast db grant {shlex.quote(role[1])}`"
        )
    elif "authentication failed" in text or "no password" in text or "pg_hba.conf" in text:
        remedy = "correct user and password in HOLDFAST_DATABASE_URL, and pg_hba.conf for this host"
    elif database := _MISSING_DATABASE.search(message):
        remedy = f"`create database {_identifier(database[1])}`, then `holdfast db migrate`"
    elif "permission denied" in text:
        remedy = "as the owner of the database: `grant connect on database NAME to ROLE`"
    elif "too many" in text or "remaining connection" in text:
        remedy = "raise max_connections, or put a pooler in transaction mode between"
    elif "certificate" in text or "ssl" in text:
        remedy = "name the CA with sslrootcert in the URL, and the host as its certificate has it"
    else:
        remedy = f"see that Postgres runs, and that {address} can be reached from this host"
    return error(check, found, remedy)


def _identifier(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'"{quoted}"'
