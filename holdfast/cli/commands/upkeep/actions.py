"""`holdfast actions`: what people have done, and why."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.moments import parse_moment
from holdfast.cli.output.text import first_line, moment
from holdfast.cli.output.write import Column, remark, write_json, write_table
from holdfast.cli.settings import Json, Server, check_limit

if TYPE_CHECKING:
    from holdfast.wire.actions import Action

ACTIONS_SHOWN = 100
_COLUMNS = (
    Column("when"),
    Column("who"),
    Column("did"),
    Column("to"),
    Column("reason", flexible=True),
    Column("facts", flexible=True, spare=True),
)


def list_actions(
    *,
    actor: Annotated[str | None, Parameter(help="Only what this one did.")] = None,
    action: Annotated[str | None, Parameter(help="Only this, such as cancel or cut_over.")] = None,
    subject: Annotated[
        str | None, Parameter(help="Only to this, such as job:42, queue:mail, or just worker.")
    ] = None,
    since: Annotated[str | None, Parameter(help="From a time on, or 10m, 2h ago.")] = None,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")] = ACTIONS_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List who cancelled, replayed, paused, cut over or changed a policy, the newest first."""
    check_limit(limit)
    with open_client(server) as client:
        page = client.actions.list(
            actor=actor,
            action=action,
            subject=subject,
            since=parse_moment(since, "--since"),
            count_max=limit,
        )
    if as_json:
        write_json(page)
        return 0
    if not page.actions:
        remark("nobody has done anything like that")
        return 0
    write_table(_COLUMNS, [_row(each) for each in page.actions])
    if page.next_page_token is not None:
        remark(f"there are more; --limit {limit * 2} shows more of them")
    return 0


def _row(done: "Action") -> tuple[str, ...]:
    facts: dict[str, Any] = msgspec.json.decode(done.facts) or {}
    said = ", ".join(f"{name}={_write(value)}" for name, value in facts.items())
    to = f"{done.subject_kind} {done.subject}"
    return moment(done.at_ms), done.actor, done.action, to, first_line(done.reason), said


def _write(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
