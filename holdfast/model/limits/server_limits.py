"""How much a server takes on: each limit with its setting, and what a refusal says of it."""

from dataclasses import dataclass

from holdfast.errors import LimitReached

# What a limit counts, as its refusal says it; by the name of its field, of its flag and metric.
_COUNTED = {
    "connections_max": "connections are open",
    "header_seconds_max": "seconds may pass until the headers of a request are there",
    "header_bytes_max": "bytes may be in the headers of a request",
    "body_seconds_max": "seconds may pass, and one more for each KiB, until its body is there",
    "streams_max": "streams of one caller are open",
    "live_tasks_max": "tasks of one owner may be live",
    "stored_bytes_max": "bytes may be stored for one owner",
}
LIMITS = tuple(_COUNTED)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of one server; for owners 0 stands for no limit."""

    connections_max: int = 10_000
    header_seconds_max: float = 30.0
    header_bytes_max: int = 64 << 10
    body_seconds_max: float = 60.0
    streams_max: int = 256
    live_tasks_max: int = 50_000_000
    stored_bytes_max: int = 0

    def refusal(self, name: str, subject: str = "", *, retry_after: float = 1) -> LimitReached:
        """Make the error of a limit that stands in the way."""
        limit = getattr(self, name)
        flag = f"--{name.replace('_', '-')}"
        whose = f" ({subject})" if subject else ""
        return LimitReached(
            f"{name}: {limit:,} {_COUNTED[name]}{whose} at most; try again later, or have the "
            f"server started with another {flag} (HOLDFAST_{name.upper()})",
            limit=name,
            maximum=limit,
            setting=flag,
            retry_after=retry_after,
        )
