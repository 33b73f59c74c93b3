"""The flags of TLS, which servers and workers share, and the CA that every command may be given."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from holdfast.errors import Invalid

if TYPE_CHECKING:
    from holdfast.tls.contexts import Identity

CA_FILE_FLAG = "--ca-file"
CA_FILE_VARIABLE = "HOLDFAST_CA_FILE"


@Parameter(name="*", group=Group("TLS", help="Files in PEM; changed ones are used by themselves."))
@dataclass(frozen=True, kw_only=True)
class TlsFlags:
    """The files by which a process is known, and by which it knows others."""

    tls_cert: Annotated[
        Path | None,
        Parameter(env_var="HOLDFAST_TLS_CERT", help="Its certificate, with those up to the CA."),
    ] = None
    tls_key: Annotated[
        Path | None, Parameter(env_var="HOLDFAST_TLS_KEY", help="The key of its certificate.")
    ] = None
    tls_client_ca: Annotated[
        Path | None,
        Parameter(
            env_var="HOLDFAST_TLS_CLIENT_CA",
            help="A CA: only callers with a certificate of it are let in.",
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        Parameter(
            env_var=CA_FILE_VARIABLE,
            help="The CA of those that it calls. Default: those of the system.",
        ),
    ] = None

    def identity(self) -> "Identity | None":
        """Pair the certificate with its key; one without the other is refused."""
        from holdfast.tls.contexts import Identity

        if self.tls_cert is None or self.tls_key is None:
            for field, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
                if getattr(self, field) is not None:
                    raise Invalid(other, f"is missing; it goes with {field}")
            if self.tls_client_ca is not None:
                raise Invalid("tls_client_ca", "goes with tls_cert and tls_key; name them, too")
            return None
        return Identity(self.tls_cert, self.tls_key)

    def export(self) -> None:
        """Put the files into the environment, where every call to a server looks for them."""
        for name in ("ca_file", "tls_cert", "tls_key"):
            path = getattr(self, name)
            if path is not None:
                os.environ[f"HOLDFAST_{name.upper()}"] = str(path)


NO_TLS = TlsFlags()


def take_ca_file(arguments: list[str]) -> list[str]:
    """Take `--ca-file FILE` off the front of a command line; returns the rest.

    It is put into the environment, where every call of this process and of its children looks.
    """
    if not arguments:
        return arguments
    flag, sign, path = arguments[0].partition("=")
    if flag != CA_FILE_FLAG:
        return arguments
    rest = arguments[1:]
    if not sign:
        path, rest = (rest[0], rest[1:]) if rest else ("", rest)
    if not path:
        raise Invalid("ca_file", f"{CA_FILE_FLAG} is followed by the file of a CA")
    os.environ[CA_FILE_VARIABLE] = path
    return rest
