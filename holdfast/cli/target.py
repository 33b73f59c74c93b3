"""Which database a command means: the flag, the environment, or a Postgres of our own."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from urllib.parse import parse_qsl, urlsplit

from cyclopts import Parameter

from holdfast.cli.output.write import remark
from holdfast.cli.signals import undisturbed
from holdfast.errors import Invalid, Unavailable
from holdfast.model.addresses import has_password, postgres_hosts
from holdfast.rules.binding import check_database

if TYPE_CHECKING:
    from holdfast.embedded import EmbeddedPostgres

Answer = TypeVar("Answer")
VARIABLE = "HOLDFAST_DATABASE_URL"
LISTEN_VARIABLE = "HOLDFAST_LISTEN_DATABASE_URL"
# The flag of a URL and its variable.
NAMES = ("--database-url", VARIABLE)
READ_VARIABLE = "HOLDFAST_READ_DATABASE_URL"
LISTEN_NAMES = ("--listen-database-url", LISTEN_VARIABLE)
READ_NAMES = ("--read-database-url", READ_VARIABLE)
TRUST_VARIABLE = "HOLDFAST_TRUST_DATABASE_NETWORK"
YES = ("1", "true", "yes", "y")
EMBEDDED_DATABASE = "holdfast"

DatabaseUrl = Annotated[
    str | None,
    Parameter(
        name="--database-url",
        env_var=VARIABLE,
        help="A PostgreSQL 15 or newer. Default: a Postgres of our own, run for the time of the "
        "command (HOLDFAST_DATA_DIR says where).",
    ),
]

ListenDatabaseUrl = Annotated[
    str | None,
    Parameter(
        name="--listen-database-url",
        env_var=LISTEN_VARIABLE,
        help="The same Postgres past a pooler, to listen for wake-ups from other servers.",
    ),
]

ReadDatabaseUrl = Annotated[
    str | None,
    Parameter(
        name="--read-database-url",
        env_var=READ_VARIABLE,
        help="A standby of the same Postgres, to answer lists, logs and searches.",
    ),
]

TrustDatabaseNetwork = Annotated[
    bool,
    Parameter(
        name="--trust-database-network",
        env_var=TRUST_VARIABLE,
        negative="",
        help="Nobody else can read or write between here and Postgres: go there without TLS.",
    ),
]


def ask(
    database_url: str | None, question: Callable[[str], Coroutine[None, None, Answer]]
) -> Answer:
    """Ask the database that is meant."""
    with open_target(database_url) as url, refusals_in_a_line():
        return asyncio.run(question(url))


@contextmanager
def refusals_in_a_line() -> Iterator[None]:
    """Turn what Postgres refuses into one line, where a traceback would help nobody."""
    from asyncpg import InsufficientPrivilegeError, InterfaceError, PostgresError

    try:
        yield
    except InsufficientPrivilegeError as error:
        remedy = (
            "migrate as the owner of the schema, who lets others in by `holdfast db grant ROLE`"
        )
        raise Unavailable(f"Postgres refused: {error}; {remedy}") from error
    except (PostgresError, InterfaceError) as error:
        raise Unavailable(f"Postgres refused: {error}") from error


@contextmanager
def open_target(database_url: str | None, *, trust_network: bool = False) -> Iterator[str]:
    """Yield the URL of the database that is meant; our own Postgres runs as long as the block."""
    if database_url is not None:
        yield check_url(database_url, trust_network=trust_network)
        return
    from holdfast.embedded import default_folder

    folder = default_folder()
    is_there = (folder / "cluster").exists()
    remark(
        f"holdfast: no --database-url and no {VARIABLE}: "
        f"{'using the' if is_there else 'creating a'} Postgres in {folder}"
    )
    with embedded(folder) as postgres:
        yield postgres.url(EMBEDDED_DATABASE)


@contextmanager
def embedded(folder: Path) -> Iterator["EmbeddedPostgres"]:
    """Run a Postgres of our own in a folder, with our database, for the time of a block."""
    from holdfast.embedded import EmbeddedPostgres

    postgres = EmbeddedPostgres(folder)
    try:
        postgres.start()
        postgres.create_database(EMBEDDED_DATABASE)
        yield postgres
    finally:
        with undisturbed():
            postgres.stop()


def check_url(url: str, *, trust_network: bool = False, names: tuple[str, str] = NAMES) -> str:
    """Refuse what the driver would stumble over, without repeating it: it may hold a password.

    Another machine is reached by TLS only, unless its network is trusted.
    """
    try:
        hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
        is_sound = bool(url) and all(urlsplit(f"//{host}").port != 0 for host in hosts)
    except ValueError:
        is_sound = False
    if not is_sound:
        raise Invalid(
            " or ".join(names),
            "is not a URL like postgresql://user@host:5432/database",
        )
    is_trusted = trust_network or os.environ.get(TRUST_VARIABLE, "").lower() in YES
    sslmode = dict(parse_qsl(urlsplit(url).query)).get("sslmode") or os.environ.get("PGSSLMODE")
    hosts = postgres_hosts(url) or os.environ.get("PGHOST", "").split(",")
    check_database([host for host in hosts if host], sslmode, is_trusted=is_trusted)
    if has_password(url) and any(url in argument for argument in sys.argv):
        remark(
            "holdfast: everybody on this machine sees arguments, and so the password in "
            f"{names[0]}; set {names[1]} instead"
        )
    return url
