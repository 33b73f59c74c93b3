"""`holdfast ca`: a small CA of your own, for hosts that have no other."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

app = App(name="ca", help="Make a CA, and certificates for hosts.")


@app.command
def init(
    folder: Path,
    /,
    *,
    days: Annotated[int, Parameter(help="How long it is good for.")] = 3650,
) -> None:
    """Make a CA: ca.pem, which everybody may have, and ca.key, which nobody else may have."""
    from holdfast.tls.authority import create_authority
    from holdfast.tls.certificates import utc_now

    written = create_authority(folder, utc_now(), days)
    sys.stdout.write(f"{written.cert}  give it to whoever calls: HOLDFAST_CA_FILE\n")
    sys.stdout.write(f"{written.key}  keep it here: who has it can issue certificates\n")


@app.command
def issue(
    folder: Path,
    name: str,
    /,
    *,
    host: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="A name or an address by which it is called; repeat it."),
    ] = (),
    role: Annotated[
        Literal["server", "worker", "client"],
        Parameter(help="Whose it is: only a server may call workers; a client needs no --host."),
    ] = "worker",
    days: Annotated[int, Parameter(help="How long it is good for.")] = 365,
) -> None:
    """Issue a certificate of the CA in a folder, with a key of its own: NAME.pem and NAME.key."""
    from holdfast.tls import authority
    from holdfast.tls.certificates import utc_now

    written = authority.issue(folder, name, host, now=utc_now(), days=days, role=role)
    sys.stdout.write(f"{written.cert}  for {', '.join(host) or 'a client'}\n")
    sys.stdout.write(f"{written.key}\n")
