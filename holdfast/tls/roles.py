"""What a certificate says of its owner beside its names: a unit of its subject.

With one CA for servers and workers, the CA alone does not tell who calls. A worker obeys only
callers whose certificate names the unit of servers.
"""

from collections.abc import Mapping
from typing import Any

SERVER_UNIT = "holdfast-server"


def is_server(peer: Mapping[str, Any] | None) -> bool:
    """Tell whether a certificate, as the ssl module gives it, is that of a server."""
    names = (pair for part in (peer or {}).get("subject", ()) for pair in part)
    return ("organizationalUnitName", SERVER_UNIT) in names
