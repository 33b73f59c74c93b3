"""The routes by which people look at the system as such: its servers, and a checkup of all."""

from holdfast.api.convert import to_ms
from holdfast.api.route import Call, Route
from holdfast.model.access.roles import Role
from holdfast.model.programs import own_version
from holdfast.rules.checkup.findings import sort_findings
from holdfast.services.checkup import examine, read_report
from holdfast.store.tables.workers.servers import ServerRow
from holdfast.store.tables.workers.servers import list_servers as list_rows
from holdfast.wire.checkup import Checkup, FindingStatus, ServerList, ServerStatus
from holdfast.wire.requests import Nothing


async def list_servers(call: Call[None, Nothing]) -> ServerList:
    """List the servers on this database, each as it was last heard of."""
    async with call.runtime.reads.transaction() as tx:
        rows = await list_rows(tx)
        now = await tx.now()
    return ServerList(to_ms(now), [_server(row) for row in rows])


async def check_up(call: Call[None, Nothing]) -> Checkup:
    """Look at Postgres, the ledger, servers and workers from here, and judge what is found."""
    database = call.runtime.reads
    findings = await examine(database, database.url)
    async with database.transaction() as tx:
        now = await tx.now()
    return Checkup(
        now_ms=to_ms(now),
        version=own_version(),
        findings=[
            FindingStatus(each.severity, each.check, each.found, each.remedy)
            for each in sort_findings(findings)
        ],
    )


def _server(row: ServerRow) -> ServerStatus:
    return ServerStatus(
        server_id=str(row.server_id),
        host=row.host,
        version=row.version,
        migration=row.migration,
        started_at_ms=to_ms(row.started_at),
        last_seen_at_ms=to_ms(row.seen_at),
        clock_skew_seconds=row.clock_skew_seconds,
        report=read_report(row),
    )


ROUTES: tuple[Route, ...] = (
    Route("GET", "/api/servers", list_servers, ServerList, Role.READ),
    Route("GET", "/api/doctor", check_up, Checkup, Role.ADMIN),
)
