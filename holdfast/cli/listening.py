"""Where a worker of placed work listens for calls, and how other hosts call it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from holdfast.cli.tls import TlsFlags
from holdfast.errors import Invalid
from holdfast.model.addresses import is_loopback

if TYPE_CHECKING:
    from holdfast.worker.placed.listener import ListenerTls

ANYWHERE = ("0.0.0.0", "::")
PORT_MAX = 65_535


@Parameter(name="*", group=Group("Listen", help="Where servers call a worker of placed work."))
@dataclass(frozen=True, kw_only=True)
class ListenFlags:
    """Where a worker listens; beyond loopback only by TLS."""

    listen: Annotated[
        str | None,
        Parameter(
            env_var="HOLDFAST_LISTEN",
            help="ADDRESS or ADDRESS:PORT; beyond loopback with --tls-cert. Default: 127.0.0.1.",
        ),
    ] = None
    advertise: Annotated[
        str | None,
        Parameter(
            env_var="HOLDFAST_ADVERTISE",
            help="The name or address by which servers call it. Default: that of --listen.",
        ),
    ] = None

    def read(self, tls: TlsFlags, *, is_placed: bool) -> dict[str, Any]:
        """Read them as options of a worker of placed work; raises Invalid."""
        if not is_placed:
            for name in ("listen", "advertise"):
                if getattr(self, name) is not None:
                    raise Invalid(name, "goes with --placed; nobody calls a worker of queues")
            return {}
        host, port = split_address(self.listen or "127.0.0.1")
        used = _read_tls(tls)
        if used is None and not is_loopback(host):
            raise Invalid(
                "listen",
                f"{host} is not a loopback address; other hosts call by TLS alone: name "
                "--tls-cert, --tls-key and --tls-client-ca, or listen on 127.0.0.1",
            )
        advertised = self.advertise
        if advertised is None and self.listen is not None and not is_loopback(host):
            if host in ANYWHERE:
                raise Invalid("advertise", f"is missing; {host} is no address to be called at")
            advertised = f"[{host}]" if ":" in host else host
        return {"host": host, "port": port, "advertised": advertised, "tls": used}


NOWHERE = ListenFlags()


def split_address(text: str) -> tuple[str, int]:
    """Split an address off its port, which may be left out."""
    host, sign, port = text.rpartition(":")
    if (
        (text.startswith("[") and text.endswith("]"))
        or not sign
        or (":" in host and not host.startswith("["))
    ):
        host, sign, port = text, "", ""
    if not host or (sign and not (port.isdigit() and int(port) <= PORT_MAX)):
        raise Invalid("listen", f"{text!r} is no address; write it like 10.0.0.7:7900")
    return host.removeprefix("[").removesuffix("]"), int(port or 0)


def _read_tls(tls: TlsFlags) -> "ListenerTls | None":
    """Take the CA of those it calls for that of those that call it, if no other is named."""
    from holdfast.worker.placed.listener import ListenerTls

    identity, client_ca = tls.identity(), tls.tls_client_ca or tls.ca_file
    if identity is None:
        return None
    if client_ca is None:
        raise Invalid("tls_client_ca", "is missing; name the CA of the servers that may call")
    used = ListenerTls(identity, client_ca)
    used.context()  # what is wrong with the files is told before anything starts
    return used
