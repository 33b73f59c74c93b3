"""What a checkup finds: each a check with its severity, what was found, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "ok")
NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; a remedy goes with whatever is not ok."""

    severity: Severity
    check: str
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Finding:
    """Note that something is as it should be."""
    return Finding("ok", check, found)


def warning(check: str, found: str, remedy: str) -> Finding:
    """Note what works, and may not for long."""
    return Finding("warning", check, found, remedy)


def error(check: str, found: str, remedy: str) -> Finding:
    """Note what does not work, or breaks a guarantee."""
    return Finding("error", check, found, remedy)


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Put the gravest first, each once, otherwise in the order in which they were found."""
    return sorted(dict.fromkeys(findings), key=lambda each: SEVERITIES.index(each.severity))


def some_of(names: Iterable[str]) -> str:
    """Name a few of many."""
    listed = list(names)
    more = f" and {len(listed) - NAMED_MAX} more" if len(listed) > NAMED_MAX else ""
    return ", ".join(listed[:NAMED_MAX]) + more
