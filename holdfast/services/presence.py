"""A server among others: it notes every few seconds that it runs, and how it does.

What stands there is for people: no server does anything by it.
"""

import shutil
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec

from holdfast.model.programs import own_version
from holdfast.services.chores import Chore
from holdfast.services.objects import ObjectStore, parse_location
from holdfast.store.database import Database
from holdfast.store.migrate import load_schema
from holdfast.store.tables.workers.servers import ServerNote, forget_servers, note_server
from holdfast.wire.checkup import ChoreReport, FolderReport, ServerReport

NOTE_SECONDS = 10.0
FORGET_AFTER = timedelta(hours=1)
# Of so many chores it tells, the first ones.
CHORES_MAX = 100
ERROR_LENGTH_MAX = 300


class Presence:
    """What one server says of itself."""

    def __init__(
        self, database: Database, objects: ObjectStore | None = None, *, is_heard: bool = True
    ) -> None:
        self.server_id = uuid4()
        self.certificate: Callable[[], datetime] | None = None
        self._database = database
        self._folders = [] if objects is None else _folders_of(objects)
        self._is_heard = is_heard
        self._chores: Sequence[Chore] = ()
        self._migration = max(step.version for step in load_schema().migrations)

    def watch(self, chores: Sequence[Chore]) -> None:
        """Tell of these chores from here on."""
        self._chores = chores

    async def note(self) -> int:
        """Note that this server runs; one step of a chore."""
        note = ServerNote(
            self.server_id,
            socket.gethostname(),
            own_version(),
            self._migration,
            datetime.now(UTC),
            msgspec.json.encode(self.report()).decode(),
        )
        async with self._database.transaction() as tx:
            await note_server(tx, note)
            await forget_servers(tx, None, silent_for=FORGET_AFTER)
        return 0

    async def leave(self) -> None:
        """Note that this server has ended."""
        async with self._database.transaction() as tx:
            await forget_servers(tx, self.server_id, silent_for=FORGET_AFTER)

    def report(self) -> ServerReport:
        """Say how this server does."""
        expires_at = None if self.certificate is None else self.certificate()
        return ServerReport(
            chores=[_report(chore) for chore in self._chores[:CHORES_MAX]],
            folders=[
                found
                for purpose, folder in self._folders
                if (found := measure_folder(purpose, folder))
            ],
            certificate_expires_at_ms=None if expires_at is None else _ms(expires_at),
            is_pooled=self._database.is_pooled,
            is_heard=self._is_heard,
        )


def _report(chore: Chore) -> ChoreReport:
    failed = chore.turns.error
    late = chore.turns.late(chore.every)
    return ChoreReport(chore.name, late, None if failed is None else failed[:ERROR_LENGTH_MAX])


def measure_folder(purpose: str, folder: Path) -> FolderReport | None:
    """Measure the file system that a folder is on, or will be on once it is made."""
    existing = next((each for each in (folder, *folder.parents) if each.exists()), None)
    if existing is None:
        return None
    try:
        usage = shutil.disk_usage(existing)
    except OSError:  # it may be looked at by others only
        return None
    return FolderReport(purpose, str(folder), usage.total, usage.free)


def _folders_of(objects: ObjectStore) -> list[tuple[str, Path]]:
    location = parse_location(objects.url)
    return [] if location.bucket is not None else [("object store", Path(location.path))]


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
