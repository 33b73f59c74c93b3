"""Which program speaks, by which version, and what time it is there: said in plain HTTP headers.

In headers and not in bodies, so that a server of an earlier version, which refuses fields that it
does not know, takes no notice.
"""

import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version

PROGRAM_HEADER, DATE_HEADER = "User-Agent", "Date"
UNKNOWN = "unknown"
_PROGRAM = re.compile(r"holdfast/([A-Za-z0-9.+!_-]{1,64})")


@cache
def own_version() -> str:
    """Read the version of the installed package."""
    try:
        return version("holdfast")
    except PackageNotFoundError:  # run from a folder that nobody has installed
        return UNKNOWN


def own_program() -> str:
    """Name this program, for its requests."""
    return f"holdfast/{own_version()}"


def read_version(program: bytes | None) -> str | None:
    """Read the version out of the name of a program; None if it is another one's."""
    found = _PROGRAM.match((program or b"").decode("latin-1"))
    return None if found is None else found[1]


def write_date(now: datetime) -> str:
    """Write the time as HTTP has it, in whole seconds."""
    return format_datetime(now.astimezone(UTC), usegmt=True)


def read_date(text: bytes | None) -> datetime | None:
    """Read the time of a sender; None if there is none, or nothing that can be read."""
    try:
        found = parsedate_to_datetime((text or b"").decode("latin-1"))
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
