"""`holdfast doctor`: what is wrong with a set-up, each finding with its remedy."""

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from holdfast.cli.output.write import write_json, write_line
from holdfast.cli.settings import Json, Server
from holdfast.cli.target import (
    LISTEN_NAMES,
    READ_NAMES,
    DatabaseUrl,
    ListenDatabaseUrl,
    ReadDatabaseUrl,
    check_url,
)
from holdfast.errors import Invalid, NotAllowed, NotFound, Refused, Unavailable
from holdfast.model.addresses import without_login
from holdfast.rules.checkup.cluster import Disk, judge_certificate, judge_disk
from holdfast.rules.checkup.findings import (
    SEVERITIES,
    Finding,
    error,
    ok,
    sort_findings,
    warning,
)
from holdfast.rules.checkup.postgres import judge_clock

if TYPE_CHECKING:
    from holdfast.client.client import Client

PROGRAM = "holdfast doctor"
PATIENCE_SECONDS = 5.0
KNOCK_SECONDS = 5.0
EXIT_FOUND = 1


@dataclass(frozen=True)
class Seen:
    """A finding, and from where it was seen: the database, the server, or this host."""

    seen_from: str
    finding: Finding


def examine(
    *,
    server: Server = None,
    database_url: DatabaseUrl = None,
    listen_database_url: ListenDatabaseUrl = None,
    read_database_url: ReadDatabaseUrl = None,
    quiet: Annotated[
        bool, Parameter(name=["--quiet", "-q"], negative="", help="Leave out what is ok.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Look at Postgres, servers, workers and this host, and say what is wrong and what to do.

    It looks from wherever it can: through the server, through the database if its URL is known,
    and at this host. Exit code 1: there is a finding of severity error.
    """
    seen = [Seen("host", each) for each in _examine_host()]
    if database_url is not None:
        check_url(database_url)
        for url, names in ((listen_database_url, LISTEN_NAMES), (read_database_url, READ_NAMES)):
            if url is not None:
                check_url(url, names=names)
        found = _ask_database(database_url, listen_database_url, read_database_url)
        seen += [Seen("database", each) for each in found]
    if server is not None or database_url is None or os.environ.get("HOLDFAST_SERVER"):
        known = {(each.finding.severity, each.finding.check) for each in seen}
        seen += [
            Seen("server", each)
            for each in _ask_server(server)
            if (each.severity, each.check) not in known  # both see it; one of them tells
        ]
    ordered = _order(seen)
    if as_json:
        write_json(_document(ordered))
    else:
        _write([each for each in ordered if not quiet or each.finding.severity != "ok"], ordered)
    return EXIT_FOUND if any(each.finding.severity == "error" for each in seen) else 0


def _order(seen: Sequence[Seen]) -> list[Seen]:
    """Put the gravest first, and what several servers or two ways have shown only once."""
    place = {finding: n for n, finding in enumerate(sort_findings(e.finding for e in seen))}
    once = {each.finding: each for each in reversed(seen)}
    return sorted(once.values(), key=lambda each: place[each.finding])


def _document(seen: Sequence[Seen]) -> dict[str, object]:
    return {
        "healthy": all(each.finding.severity != "error" for each in seen),
        "findings": [{**asdict(each.finding), "seen_from": each.seen_from} for each in seen],
    }


def _write(shown: Sequence[Seen], all_of_them: Sequence[Seen]) -> None:
    """Write a line for each, and the remedy below: a table would cut off what is to be copied."""
    width = max((len(each.finding.check) for each in shown), default=0)
    for each in shown:
        one = each.finding
        write_line(f"{one.severity:<8}{one.check:<{width}}  {one.found}")
        if one.remedy:
            write_line(f"{'':<8}{'':<{width}}  -> {one.remedy}")
    errors, warnings, well = (
        sum(each.finding.severity == severity for each in all_of_them) for severity in SEVERITIES
    )
    if shown:
        write_line("")
    places = ", ".join(dict.fromkeys(each.seen_from for each in all_of_them))
    write_line(
        f"{_count(errors, 'error')}, {_count(warnings, 'warning')}, {well} ok; "
        f"looked from: {places}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _ask_database(url: str, listen_url: str | None, replica_url: str | None) -> list[Finding]:
    from holdfast.services.checkup import examine_database

    return asyncio.run(
        examine_database(
            url, program=PROGRAM, is_heard=listen_url is not None, replica_url=replica_url
        )
    )


def _ask_server(server: str | None) -> list[Finding]:
    """Look at the way to a server, and have it look at everything that it sees."""
    from holdfast.client.client import Client
    from holdfast.client.transport import find_server

    # What fails is a finding; that it is tried again is not worth a line beside.
    logging.getLogger("holdfast.client").setLevel(logging.ERROR)
    url = find_server(server)
    way = _examine_way(url)
    if any(each.severity == "error" for each in way):
        return way
    with Client(url, patience=PATIENCE_SECONDS, codec=None) as client:
        return [*way, *_read_checkup(client, without_login(url))]


def _read_checkup(client: "Client", shown: str) -> list[Finding]:
    from holdfast.model.programs import own_version

    asked_at = time.time()
    try:
        found = client.servers.check_up()
    except NotFound:
        remedy = "upgrade the server; give the URL of its database to look from there"
        return [warning("server", f"{shown} is older than this program", remedy)]
    except NotAllowed as refused:
        remedy = "show a token with the role admin (HOLDFAST_TOKEN_FILE), or look by --database-url"
        return [warning("token", str(refused), remedy)]
    except (Refused, Unavailable) as refused:
        remedy = "see the server's log; give the URL of its database to look from there"
        return [error("server", f"{shown}: {refused}", remedy)]
    half = (time.time() - asked_at) / 2
    # Its clock is read at the end of its look, so a slow one makes this less certain.
    skew = time.time() - found.now_ms / 1000
    findings = [
        Finding(each.severity, each.check, each.found, each.remedy)  # type: ignore[arg-type]
        for each in found.findings
        if each.check != "clock of this host"  # that is the server's
    ]
    findings.append(judge_clock("this host", skew, uncertain_seconds=half))
    if found.version != own_version():
        text = f"this program is {own_version()}, the server at {shown} {found.version}"
        findings.append(warning("versions", text, "use the same version on both sides"))
    return [ok("server", f"{shown} answers, version {found.version}"), *findings]


def _examine_way(url: str) -> list[Finding]:
    """Connect to a server, and look at its certificate, if it shows one."""
    parts, shown = urlsplit(url), without_login(url)
    address = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection(address, KNOCK_SECONDS) as connection:
            if parts.scheme == "https":
                return [_examine_certificate(connection, parts.hostname, shown)]
    except OSError as refused:
        remedy = "start one with `holdfast server`, or name it with --server or HOLDFAST_SERVER"
        return [
            error("server", f"nobody answers at {shown}: {refused.strerror or refused}", remedy)
        ]
    return []


def _examine_certificate(connection: socket.socket, host: str | None, shown: str) -> Finding:
    from holdfast.tls.calling import describe_refusal, open_calling

    check = f"certificate of {shown}"
    try:
        with open_calling().current().wrap_socket(connection, server_hostname=host) as secured:
            certificate = secured.getpeercert() or {}
    except ssl.SSLError as refused:
        found, _, remedy = (describe_refusal(refused, shown) or str(refused)).partition("; ")
        return error(check, found, remedy or "see that it speaks TLS, and whom it lets in")
    except Invalid as unusable:
        return error(check, str(unusable), "correct the file that this setting names")
    until = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    return judge_certificate(shown, until - datetime.now(UTC).timestamp())


def _examine_host() -> Iterable[Finding]:
    """Look at the disks of the folders that commands on this host write to."""
    import shutil

    for variable in ("HOLDFAST_WORKER_DIR", "HOLDFAST_DATA_DIR"):
        folder = Path(os.environ.get(variable) or "/nonexistent")
        if folder.is_dir():
            usage = shutil.disk_usage(folder)
            yield judge_disk(Disk(variable, str(folder), usage.total, usage.free))
