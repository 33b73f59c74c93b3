"""Which calls are a worker's own: those that carry the secret that it registered with.

Where tokens are asked for, nobody speaks for a worker without; elsewhere, for none that has a
secret. As with tokens, a header that was found good is known by its own bytes from then on, and
costs one look into a dict; what is known is read again every few seconds.
"""

import hmac
from collections.abc import Mapping

from holdfast.errors import NotAllowed
from holdfast.model.work.ids import check_worker_id
from holdfast.model.workers.worker_credentials import parse_header
from holdfast.store.database import Database
from holdfast.store.tables.workers.workers import lose_workers_of_ended_tokens, read_secret_hashes
from holdfast.wire.cluster import WORKER_HEADER

READ_SECONDS = 2.0
KNOWN_MAX = 100_000
_HEADER = WORKER_HEADER.lower().encode()


class WorkerCredentials:
    """The credentials that workers have shown to this server."""

    def __init__(self, database: Database, *, are_required: bool) -> None:
        self._database = database
        self._are_required = are_required
        self._good: dict[bytes, str] = {}
        # Workers that have registered without a secret, or not at all.
        self._open: set[str] = set()

    async def check(self, headers: Mapping[bytes, bytes], worker_id: str) -> None:
        """Refuse a call in the name of a worker that does not show its credential."""
        header = headers.get(_HEADER, b"")
        if self._good.get(header) == worker_id or (not header and worker_id in self._open):
            return
        if await self.is_shown(headers, worker_id):
            return
        if self._are_required:
            raise _refused(worker_id, "has not registered with a secret, or this call lacks it")
        if worker_id in await read_secret_hashes(self._database, [worker_id]):
            raise _refused(worker_id, "has registered with a secret, which this call lacks")
        if not header:
            self._make_room()
            self._open.add(worker_id)

    async def is_shown(self, headers: Mapping[bytes, bytes], worker_id: str) -> bool:
        """Tell whether a call carries the credential of a worker; a wrong one is refused."""
        header = headers.get(_HEADER, b"")
        if self._good.get(header) == worker_id:
            return True
        check_worker_id(worker_id)
        if not header:
            return False
        shown = parse_header(header)
        if shown is None or shown.worker_id != worker_id:
            raise _refused(worker_id, f"is not the one that {WORKER_HEADER} names")
        stored = (await read_secret_hashes(self._database, [worker_id])).get(worker_id)
        if stored is None:
            return False
        if stored.void:
            raise _refused(worker_id, "joined with a token that has ended")
        if not hmac.compare_digest(stored.secret_hash, shown.secret_hash):
            raise _refused(worker_id, "has another secret than this call")
        self._make_room()
        self._good[header] = worker_id
        return True

    def note_registered(self, worker_id: str) -> None:
        """Take note that a worker may have a secret from here on."""
        self._open.discard(worker_id)

    async def read(self) -> int:
        """Read again what is known: whoever has joined with a token that has ended is lost."""
        if self._are_required:
            await lose_workers_of_ended_tokens(self._database)
        looked_at = {*self._good.values(), *self._open}
        if looked_at:
            stored = await read_secret_hashes(self._database, sorted(looked_at))
            ended = {each for each in looked_at if each not in stored or stored[each].void}
            self._good = {h: each for h, each in self._good.items() if each not in ended}
            self._open.difference_update(stored)
        return 0

    def _make_room(self) -> None:
        """Forget all, where somebody has brought more than there can be workers."""
        if len(self._good) + len(self._open) >= KNOWN_MAX:
            self._good.clear()
            self._open.clear()


def _refused(worker_id: str, why: str) -> NotAllowed:
    return NotAllowed(
        f"worker {worker_id} {why}; register with a secret, and send `{WORKER_HEADER}: WORKER_ID "
        "SECRET` with every call",
        lacks=f"the credential of worker {worker_id}",
    )
