"""`holdfast tokens`: who may call a server. The first one is made directly on the database."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import App, Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.moments import parse_span, parse_time
from holdfast.cli.output.write import Column, remark, write_json, write_line, write_table
from holdfast.cli.settings import Json, Server
from holdfast.cli.spec import find_user
from holdfast.cli.target import DatabaseUrl, ask

if TYPE_CHECKING:
    from holdfast.store.database import Database
    from holdfast.wire.tokens import TokenList

Answer = TypeVar("Answer")
app = App(name="tokens", help="Make, list, rotate and revoke tokens.")
TokenName = Annotated[str, Parameter(name="TOKEN", help="The token's name, or its id.")]
_COLUMNS = (
    Column("name"),
    Column("id"),
    Column("roles"),
    Column("owners"),
    Column("queues"),
    Column("made by"),
    Column("expires"),
    Column("last used"),
)


@app.command(name="list")
def list_all(
    *,
    revoked: Annotated[bool, Parameter(negative="", help="Those that were revoked, too.")] = False,
    server: Server = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> int:
    """List tokens; their secrets are known to nobody but their holders."""
    if database_url is None:
        with open_client(server) as client:
            found = client.tokens.list(revoked=revoked)
    else:
        found = _on_database(database_url, lambda database: _list(database, revoked))
    if as_json:
        write_json(found)
    elif not found.tokens:
        remark("no tokens: make one with `holdfast tokens create`")
    else:
        write_table(
            _COLUMNS,
            [
                (
                    token.name,
                    token.token_id,
                    ", ".join(token.roles),
                    ", ".join(token.owners) or "all",
                    ", ".join(token.queues) or "all",
                    token.created_by,
                    f"revoked {_show(token.revoked_at)}"
                    if token.revoked_at
                    else _show(token.expires_at) or "never",
                    _show(token.last_used_at) or "never",
                )
                for token in found.tokens
            ],
        )
    return 0


@app.command
def create(
    *,
    name: Annotated[str, Parameter(help="Who will use it; the actor of what is done with it.")],
    role: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="read, data, submit, worker or admin; repeat it."),
    ],
    owner: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            help="Only for jobs of this owner; repeat it. For the "
            "role submit: its own name by default, and '*' for all owners.",
        ),
    ] = (),
    queue: Annotated[
        tuple[str, ...], Parameter(negative="", help="Only for jobs in this queue; repeat it.")
    ] = (),
    expires: Annotated[
        str | None, Parameter(help="When it ends: 90d or 12h from now, or a time. Default: never.")
    ] = None,
    server: Server = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> int:
    """Make a token and write it out, this once; with a database's URL, without a server."""
    ends_at = parse_expiry(expires)
    if database_url is None:
        with open_client(server) as client:
            made = client.tokens.create(name, role, owners=owner, queues=queue, expires_at=ends_at)
        token_id, text = made.token_id, made.token
    else:
        from holdfast.operations.tokens import WantedToken, create_token

        wanted = WantedToken(name, role, owner, queue, ends_at)
        token_id, text = _on_database(
            database_url, lambda database: create_token(database, wanted, actor=_operator())
        )
    return _tell(token_id, text, as_json=as_json)


@app.command
def rotate(
    token: TokenName,
    /,
    *,
    grace: Annotated[
        str | None, Parameter(help="How long the old secret stays good: 10m, 1h. Default: not.")
    ] = None,
    server: Server = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> int:
    """Give a token another secret and write it out, this once."""
    seconds = parse_span(grace, "--grace") or 0.0
    if database_url is None:
        with open_client(server) as client:
            made = client.tokens.rotate(token, grace_seconds=seconds)
        token_id, text = made.token_id, made.token
    else:
        from holdfast.operations.tokens import rotate_token

        kept = timedelta(seconds=seconds)
        token_id, text = _on_database(
            database_url,
            lambda database: rotate_token(database, token, grace=kept, actor=_operator()),
        )
    return _tell(token_id, text, as_json=as_json)


@app.command
def revoke(token: TokenName, /, *, server: Server = None, database_url: DatabaseUrl = None) -> int:
    """Take a token out of use for ever; servers notice within seconds."""
    if database_url is None:
        with open_client(server) as client:
            client.tokens.revoke(token)
    else:
        from holdfast.operations.tokens import revoke_token

        _on_database(
            database_url, lambda database: revoke_token(database, token, actor=_operator())
        )
    write_line(f"token {token} is revoked")
    return 0


def _on_database(database_url: str, question: "Callable[[Database], Awaitable[Answer]]") -> Answer:
    from holdfast.store.database import Database
    from holdfast.store.migrate import check_schema

    async def put(url: str) -> Answer:
        await check_schema(url)
        async with Database(url, connections_max=1, program="holdfast tokens") as database:
            return await question(database)

    return ask(database_url, put)


async def _list(database: "Database", revoked: bool) -> "TokenList":
    from holdfast.operations.tokens import list_tokens
    from holdfast.wire.tokens import TokenList, TokenStatus

    rows = await list_tokens(database, with_revoked=revoked)
    return TokenList([TokenStatus(**row._asdict()) for row in rows])


def _tell(token_id: str, text: str, *, as_json: bool) -> int:
    if as_json:
        write_json({"token_id": token_id, "token": text})
    else:
        write_line(text)
        remark("holdfast: this is the only time that it is shown; keep it in a file of your own")
    return 0


def _operator() -> str:
    """Say who works on the database itself."""
    return f"{find_user() or 'somebody'} (database)"


def parse_expiry(text: str | None) -> datetime | None:
    """Read when a token ends: a span from now, or a time, without a zone that of here."""
    if text is None:
        return None
    if text.strip()[:4].isdigit() and "-" in text:
        seconds = parse_time(text, "--expires")
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    span = parse_span(text, "--expires")
    return None if span is None else datetime.now(UTC) + timedelta(seconds=span)


def _show(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M}"
