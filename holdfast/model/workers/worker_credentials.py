"""What a worker is known by: its id, and a secret that it makes for each incarnation.

The server has the hash of the secret alone. The worker shows the secret when it calls; the server
shows the hash when it calls the worker. So what a server or its database knows lets nobody speak
for a worker.
"""

import re
import secrets
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from uuid import uuid4

from holdfast.errors import Invalid
from holdfast.model.access.tokens import hash_secret
from holdfast.model.work.ids import check_worker_id

SECRET_LENGTH_MAX = 256
_SECRET = re.compile(rf"[!-~]{{16,{SECRET_LENGTH_MAX}}}")


@dataclass(frozen=True, slots=True)
class WorkerCredential:
    """A worker's id and secret; the secret is not shown where this is."""

    worker_id: str
    secret: str = field(repr=False)

    @classmethod
    def make(cls, name: str) -> Self:
        """Make one for a new incarnation of a worker."""
        return cls(f"{name}-{uuid4().hex[:12]}", secrets.token_urlsafe(32))

    @property
    def header(self) -> str:
        """The value of the header by which the worker is known to a server."""
        return f"{self.worker_id} {self.secret}"

    @property
    def call_secret(self) -> str:
        """What a server shows that calls the worker."""
        return hash_secret(self.secret).hex()


class ShownCredential(NamedTuple):
    """A credential as a caller shows it: whose it is, and the hash of its secret."""

    worker_id: str
    secret_hash: bytes


def parse_header(header: bytes) -> ShownCredential | None:
    """Take the header of a worker apart; None if it has not that form."""
    worker_id, _, secret = header.decode("latin-1").partition(" ")
    if not _SECRET.fullmatch(secret):
        return None
    return ShownCredential(worker_id, hash_secret(secret))


def read_credential(text: str) -> WorkerCredential | None:
    """Read a credential that was written down as a header; None if it is none."""
    worker_id, _, secret = text.partition(" ")
    try:
        check_worker_id(worker_id)
    except Invalid:
        return None
    return WorkerCredential(worker_id, secret) if _SECRET.fullmatch(secret) else None


def check_secret(field_name: str, secret: str) -> str:
    """Refuse a secret that is too short to be one, or that no header can carry."""
    if not _SECRET.fullmatch(secret):
        problem = f"is not 16 to {SECRET_LENGTH_MAX} letters, digits and signs; make a random one"
        raise Invalid(field_name, problem)
    return secret
