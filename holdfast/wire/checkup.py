"""How servers do, and what a checkup of the whole system finds."""

import msgspec


class ChoreReport(msgspec.Struct, frozen=True):
    """A chore of a server: by how much it is late, and how its last turn failed, if it did."""

    name: str
    late_seconds: float
    error: str | None = None


class FolderReport(msgspec.Struct, frozen=True):
    """The file system of a folder that a server writes to."""

    purpose: str
    folder: str
    total_bytes: int
    free_bytes: int


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself every few seconds."""

    chores: list[ChoreReport] = []
    folders: list[FolderReport] = []
    certificate_expires_at_ms: int | None = None
    # Whether a pooler is between it and Postgres, and whether wake-ups reach it past that.
    is_pooled: bool = False
    is_heard: bool = True


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it was last heard of; `migration` is the newest that its program knows.

    `clock_skew_seconds` is by how much its host's clock is ahead of that of the database.
    """

    server_id: str
    host: str
    version: str
    migration: int
    started_at_ms: int
    last_seen_at_ms: int
    clock_skew_seconds: float
    report: ServerReport


class ServerList(msgspec.Struct, frozen=True):
    """The servers on one database, the oldest first."""

    now_ms: int
    servers: list[ServerStatus]


class FindingStatus(msgspec.Struct, frozen=True):
    """One thing that was looked at: its severity is ok, warning or error."""

    severity: str
    check: str
    found: str
    remedy: str = ""


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """All that one server sees of the system, the gravest first; `now_ms` is the ledger's time."""

    now_ms: int
    version: str
    findings: list[FindingStatus]


class Health(msgspec.Struct, frozen=True):
    """This server works; one that does not answers with an error."""

    status: str


class Readiness(msgspec.Struct, frozen=True):
    """This server can work now, and how its read replica is: `near`, or why it is not read."""

    status: str
    read_replica: str | None = None
