"""What a worker orders from a shim, and what a shim reports, as they stand in its folder."""

import math
import re
from typing import Any, Literal

import msgspec

from holdfast.errors import Invalid
from holdfast.worker.processes.mark import mark_of

OUTPUT_BYTES_MIN = 4096
_TOKEN = re.compile(r"[0-9A-Za-z_-]{1,128}")

Reason = Literal["lease", "soft", "hard", "oom", "cannot_start", "shim_lost"]


class ShimOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a shim shall run; `note` is the worker's own, given back on adoption."""

    argv: list[str]
    environment: dict[str, str]
    cwd: str
    token: str
    deadline: float
    memory: int = 0
    cpu: float = 0.0
    output_bytes_max: int = 64 * 2**20
    cgroups: bool = True
    # Which user its command is, alone among all attempts; 0: the one that the worker is.
    uid: int = 0
    note: dict[str, Any] = {}

    @property
    def mark(self) -> str:
        """By which its processes are known."""
        return mark_of(self.token)

    def check(self) -> None:
        """Refuse an order that no shim can carry out."""
        if not _TOKEN.fullmatch(self.token):
            raise Invalid("token", "is not one word of at most 128 letters, digits, - and _")
        if not math.isfinite(self.deadline):
            raise Invalid("deadline", f"{self.deadline} is not a time of the boot clock")
        if not 0 <= self.uid < 2**32 - 1:
            raise Invalid("uid", f"{self.uid} is not the number of a user")
        if not 0 <= self.memory < 2**62:
            raise Invalid("memory", f"{self.memory} is not a number of bytes")
        if not 0 <= self.cpu < 2**20:
            raise Invalid("cpu", f"{self.cpu} is not a number of cores")
        if self.output_bytes_max < OUTPUT_BYTES_MIN:
            raise Invalid("output_bytes_max", f"must be at least {OUTPUT_BYTES_MIN}")


class ShimStarted(msgspec.Struct, frozen=True):
    """When a command was started, in seconds since 1970, and what enforces its limits."""

    started_at: float
    limits: str


class ShimUsage(msgspec.Struct, frozen=True):
    """What a command has used, with all that came of it."""

    cpu_seconds: float
    memory_peak_bytes: int
    processes_max: int


class UsageSoFar(ShimUsage, frozen=True):
    """What a command that runs has used until lately, and what enforces its limits."""

    limits: str


class ShimExit(msgspec.Struct, frozen=True):
    """How a command ended; nothing of it is left. Times are seconds since 1970.

    `limits` is cgroup2, rlimit or none, and says so if the cpu is not limited as asked.
    """

    exit_code: int | None
    signal: int | None
    reason: Reason | None
    error: str | None
    started_at: float | None
    ended_at: float
    usage: ShimUsage | None
    limits: str
