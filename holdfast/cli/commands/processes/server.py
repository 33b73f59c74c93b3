"""`holdfast server`: the API and the chores on one Postgres."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.cli.core_files import forbid_core_files
from holdfast.cli.garbage import SERVER_ALLOCATIONS, collect_garbage_rarely
from holdfast.cli.limits import DEFAULT_LIMITS, LimitFlags
from holdfast.cli.oidc import NO_OIDC, OidcFlags
from holdfast.cli.output.log_lines import set_up_logging
from holdfast.cli.output.unread import while_read
from holdfast.cli.settings import AllowedHosts, LogFormat, Port, SqsEndpointUrl, SqsPrefix, WakeUps
from holdfast.cli.target import (
    LISTEN_NAMES,
    READ_NAMES,
    DatabaseUrl,
    ListenDatabaseUrl,
    ReadDatabaseUrl,
    TrustDatabaseNetwork,
    check_url,
    open_target,
    refusals_in_a_line,
)
from holdfast.cli.tls import NO_TLS, TlsFlags
from holdfast.errors import Invalid
from holdfast.tracing.switch import traced

if TYPE_CHECKING:
    from holdfast.services.runtime import Options
    from holdfast.services.waking.wake_ups import WakeUpTransport
    from holdfast.tls.serving import ServerTls

SERVING_AT = "holdfast: serving at "
RETENTION_DAYS = 30.0
OBJECTS = "objects"
NO_OBJECTS = "none"
DAYS_MAX = 36_500.0
# A name or an address, with a port or for all of them; no scheme, no path.
HOST = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d+)?", re.ASCII)
HEARTBEAT_SECONDS = 5.0
HEARTBEAT_SECONDS_MIN, HEARTBEAT_SECONDS_MAX = 0.05, 60.0
CALL_TIMEOUT_SECONDS = 10.0
CALL_TIMEOUT_SECONDS_MAX = 300.0
Host = Annotated[
    str,
    Parameter(
        env_var="HOLDFAST_HOST",
        help="Where it listens; beyond loopback only with tokens, and with TLS or behind a proxy.",
    ),
]
WorkerNetworks = Annotated[
    tuple[str, ...],
    Parameter(
        env_var="HOLDFAST_WORKER_NETWORKS",
        env_var_split=lambda _, text, **_how: text.replace(",", " ").split(),
        negative="",
        help="A network, beside loopback, where workers of placed work may be called, such as "
        "10.0.0.0/8; repeat it.",
    ),
]
HeartbeatSeconds = Annotated[
    float,
    Parameter(
        env_var="HOLDFAST_HEARTBEAT_SECONDS", help="How often workers of placed work are called."
    ),
]
CallTimeoutSeconds = Annotated[
    float,
    Parameter(
        env_var="HOLDFAST_CALL_TIMEOUT_SECONDS",
        help="How long such a call may take; a worker is lost after three that failed.",
    ),
]

ObjectStoreAt = Annotated[
    str | None,
    Parameter(
        env_var="HOLDFAST_OBJECT_STORE",
        help="Where bundles are kept: a folder, s3://bucket/prefix, or `none`. Default: the "
        "folder `objects` in HOLDFAST_DATA_DIR.",
    ),
]
RetentionDays = Annotated[
    float, Parameter(env_var="HOLDFAST_RETENTION_DAYS", help="How long jobs stay after their end.")
]
LeaseMin = Annotated[
    float | None,
    Parameter(env_var="HOLDFAST_LEASE_MIN", help="The shortest lease, in seconds, instead of 30."),
]
RequireTokens = Annotated[
    bool,
    Parameter(
        env_var="HOLDFAST_REQUIRE_TOKENS",
        negative="",
        help="Ask every caller for a token; beyond loopback this has to be given.",
    ),
]
BehindProxy = Annotated[
    bool,
    Parameter(
        env_var="HOLDFAST_BEHIND_PROXY",
        negative="",
        help="A proxy in front of this server ends TLS: listen beyond loopback without.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The settings of a server beside where it listens."""

    lease_min: float | None
    retention_days: float
    wake_ups: str
    listen_database_url: str | None = None
    read_database_url: str | None = None
    sqs_prefix: str
    sqs_endpoint_url: str | None
    object_store: str | None = None
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    call_timeout_seconds: float = CALL_TIMEOUT_SECONDS
    allowed_hosts: tuple[str, ...] = ()
    tls: TlsFlags = NO_TLS
    worker_networks: tuple[str, ...] = ()
    require_tokens: bool = False
    behind_proxy: bool = False
    oidc: OidcFlags = NO_OIDC
    limits: LimitFlags = DEFAULT_LIMITS


def run_server(
    *,
    database_url: DatabaseUrl = None,
    trust_database_network: TrustDatabaseNetwork = False,
    host: Host = "127.0.0.1",
    port: Port = 7878,
    allowed_host: AllowedHosts = (),
    require_tokens: RequireTokens = False,
    behind_proxy: BehindProxy = False,
    migrate: Annotated[bool, Parameter(negative="", help="Bring the schema up first.")] = False,
    retention_days: RetentionDays = RETENTION_DAYS,
    lease_min: LeaseMin = None,
    heartbeat_seconds: HeartbeatSeconds = HEARTBEAT_SECONDS,
    call_timeout_seconds: CallTimeoutSeconds = CALL_TIMEOUT_SECONDS,
    wake_ups: WakeUps = "notify",
    listen_database_url: ListenDatabaseUrl = None,
    read_database_url: ReadDatabaseUrl = None,
    sqs_prefix: SqsPrefix = "holdfast-",
    sqs_endpoint_url: SqsEndpointUrl = None,
    object_store: ObjectStoreAt = None,
    tls: TlsFlags = NO_TLS,
    oidc: OidcFlags = NO_OIDC,
    worker_network: WorkerNetworks = (),
    limits: LimitFlags = DEFAULT_LIMITS,
    log_format: LogFormat = "auto",
) -> int:
    """Serve the API and do the chores until asked to stop."""
    import uvloop

    from holdfast.server import allow_many_files

    settings = ServerSettings(
        lease_min=lease_min,
        retention_days=retention_days,
        wake_ups=wake_ups,
        listen_database_url=_check(listen_database_url, LISTEN_NAMES, trust_database_network),
        read_database_url=_check(read_database_url, READ_NAMES, trust_database_network),
        sqs_prefix=sqs_prefix,
        sqs_endpoint_url=sqs_endpoint_url,
        object_store=_choose_objects(object_store),
        heartbeat_seconds=heartbeat_seconds,
        call_timeout_seconds=call_timeout_seconds,
        allowed_hosts=allowed_host,
        tls=tls,
        worker_networks=worker_network,
        require_tokens=require_tokens,
        behind_proxy=behind_proxy,
        oidc=oidc,
        limits=limits,
    )
    _check_bind(host, settings)
    check_settings(settings)
    set_up_logging(log_format)
    forbid_core_files()
    allow_many_files()
    collect_garbage_rarely(SERVER_ALLOCATIONS)
    target = open_target(database_url, trust_network=trust_database_network)
    with traced("holdfast-server"), target as url, refusals_in_a_line():
        return uvloop.run(_serve(url, (host, port), settings, migrate=migrate))


def _check(url: str | None, names: tuple[str, str], trust_network: bool) -> str | None:
    return url and check_url(url, trust_network=trust_network, names=names)


def _check_bind(host: str, settings: ServerSettings) -> None:
    """Refuse to serve other machines without tokens and TLS."""
    from holdfast.rules.binding import check_bind

    check_bind(
        host,
        requires_tokens=settings.require_tokens,
        has_tls=settings.tls.tls_cert is not None,
        behind_proxy=settings.behind_proxy,
    )


def check_settings(settings: ServerSettings) -> None:
    """Refuse numbers that no server can live with, before anything is started."""
    from holdfast.model.submitting.spec import Limits
    from holdfast.services.leading.reach import read_networks
    from holdfast.services.objects import parse_location

    longest = Limits().lease_seconds_max
    if settings.lease_min is not None and not 0 < settings.lease_min <= longest:
        raise Invalid("lease_min", f"is {settings.lease_min:g}; use more than 0, up to {longest:g}")
    if not 0 < settings.retention_days <= DAYS_MAX:
        raise Invalid(
            "retention_days", f"is {settings.retention_days:g}; use more than 0, up to {DAYS_MAX:g}"
        )
    tick = settings.heartbeat_seconds
    if not HEARTBEAT_SECONDS_MIN <= tick <= HEARTBEAT_SECONDS_MAX:
        allowed = f"{HEARTBEAT_SECONDS_MIN:g} to {HEARTBEAT_SECONDS_MAX:g}"
        raise Invalid("heartbeat_seconds", f"is {tick:g}; use {allowed}")
    patience = settings.call_timeout_seconds
    if not HEARTBEAT_SECONDS_MIN <= patience <= CALL_TIMEOUT_SECONDS_MAX:
        allowed = f"{HEARTBEAT_SECONDS_MIN:g} to {CALL_TIMEOUT_SECONDS_MAX:g}"
        raise Invalid("call_timeout_seconds", f"is {patience:g}; use {allowed}")
    if settings.object_store is not None:
        parse_location(settings.object_store)
    check_hosts(settings.allowed_hosts)
    settings.tls.identity()
    settings.oidc.settings(require_tokens=settings.require_tokens)
    read_networks(settings.worker_networks)
    settings.limits.limits()


def check_hosts(hosts: Sequence[str]) -> None:
    """Refuse what cannot be the Host of a request."""
    for host in hosts:
        if not HOST.fullmatch(host):
            raise Invalid("allowed_host", f"{host!r} is no host; use a name, such as jobs.example")


def _choose_objects(location: str | None) -> str | None:
    """Choose the place for objects: by default in the folder of a Postgres of our own, used or not.

    None is a server that takes no bundles in.
    """
    if location is not None:
        return None if location == NO_OBJECTS else location
    from holdfast.embedded import PostgresUnavailable, default_folder

    try:
        return str(default_folder() / OBJECTS)
    except PostgresUnavailable:  # this user has no home: a server without bundles is one too
        return None


async def _serve(
    url: str, listening: tuple[str, int], settings: ServerSettings, *, migrate: bool
) -> int:
    from holdfast.server import Address, run_until_signalled, serve
    from holdfast.store.migrate import check_schema
    from holdfast.store.migrate import migrate as bring_up

    if migrate:
        await bring_up(url)
    else:
        await check_schema(url)
    address = Address(
        *listening, settings.allowed_hosts, _open_tls(settings.tls), settings.behind_proxy
    )
    async with (
        _open_options(url, settings) as options,
        serve(options, address) as server,
    ):
        ending = asyncio.create_task(run_until_signalled())
        await asyncio.sleep(0)  # whoever hears of the server may ask it to end at once
        with while_read(sys.stdout):
            sys.stdout.write(f"{SERVING_AT}{server.url}\n")
        await ending
    return 0


def _open_tls(flags: TlsFlags) -> "ServerTls | None":
    """Read the certificate that the server shows, if it speaks TLS."""
    from holdfast.tls.serving import ServerTls

    identity = flags.identity()
    return None if identity is None else ServerTls(identity, flags.tls_client_ca)


@asynccontextmanager
async def _open_options(url: str, settings: ServerSettings) -> "AsyncIterator[Options]":
    """Make what the server is built from; a connection to SQS is closed after it."""
    from msgspec.structs import replace

    from holdfast.model.submitting.spec import Limits
    from holdfast.operations.upkeep.prune import Retention
    from holdfast.services.leading.reach import Reach
    from holdfast.services.runtime import Options
    from holdfast.tls.calling import open_calling

    limits = Limits(placed_lease_seconds_min=2 * settings.heartbeat_seconds)
    if settings.lease_min is not None:
        limits = replace(limits, lease_seconds_min=settings.lease_min)
    async with _open_transports(settings) as transports:
        yield Options(
            url,
            limits,
            Retention(jobs=timedelta(days=settings.retention_days)),
            transports,
            uses_notify=settings.wake_ups != "local",
            listen_database_url=settings.listen_database_url,
            read_database_url=settings.read_database_url,
            object_store=settings.object_store,
            heartbeat_seconds=settings.heartbeat_seconds,
            call_timeout_seconds=settings.call_timeout_seconds,
            reach=Reach(
                settings.worker_networks,
                open_calling(settings.tls.ca_file, settings.tls.identity()),
            ),
            requires_tokens=settings.require_tokens,
            oidc=settings.oidc.settings(require_tokens=settings.require_tokens),
            server_limits=settings.limits.limits(),
        )


@asynccontextmanager
async def _open_transports(settings: ServerSettings) -> "AsyncIterator[list[WakeUpTransport]]":
    if settings.wake_ups != "sqs":
        yield []
        return
    from holdfast.services.waking.sqs import SqsPublisher

    publisher = SqsPublisher(prefix=settings.sqs_prefix, endpoint_url=settings.sqs_endpoint_url)
    try:
        yield [publisher]
    finally:
        await publisher.close()
