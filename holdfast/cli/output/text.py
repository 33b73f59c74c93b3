"""Words for people: others' text made inert, states by short names, times as ages, amounts."""

import re
import time
import unicodedata
from datetime import datetime

_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SIZES = ((10**15, "PB"), (10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"), (1, "B"))


def inert(text: str, keep: str = "") -> str:
    """Write control characters as escapes, so that nobody's text can steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in keep or unicodedata.category(character) == "Zs"
        else character.encode("unicode_escape").decode()
        for character in text
    )


def state_name(state: str) -> str:
    """Shorten a state's name from the wire to what people see: TASK_STATE_RUNNING is running."""
    return state.removeprefix("TASK_STATE_").removeprefix("JOB_STATE_").lower()


def span(seconds: float) -> str:
    """Write a length of time in its two largest units, a short one with its fraction."""
    if seconds < 1:
        return f"{max(seconds, 0.0) * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    rest = round(seconds)
    index = next(index for index, (size, _) in enumerate(_UNITS) if rest >= size)
    size, unit = _UNITS[index]
    count, rest = divmod(rest, size)
    words = f"{count} {unit}"
    for smaller, smaller_unit in _UNITS[index + 1 : index + 2]:
        if rest >= smaller:
            words += f" {rest // smaller} {smaller_unit}"
    return words


def age(at_ms: float | None) -> str:
    """Write an instant as people ask for it: how long ago, or how long from now."""
    if at_ms is None:
        return ""
    seconds = time.time() - at_ms / 1000
    if abs(seconds) < 1:
        return "now"
    size, unit = next(each for each in _UNITS if abs(seconds) >= each[0])
    amount = f"{int(abs(seconds) // size)} {unit}"
    return f"{amount} ago" if seconds > 0 else f"in {amount}"


def took(started_at_ms: int | None, finished_at_ms: int | None) -> str:
    """Write how long something ran, or has been running."""
    if started_at_ms is None:
        return ""
    until = time.time() * 1000 if finished_at_ms is None else finished_at_ms
    return span((until - started_at_ms) / 1000)


def moment(at_ms: float | None) -> str:
    """Write an instant with its age: for one thing looked at closely."""
    if at_ms is None:
        return ""
    local = datetime.fromtimestamp(at_ms / 1000).astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S} ({age(at_ms)})"


def local_times(sentence: str) -> str:
    """Write the moments in a sentence of the server's in the time of this machine."""
    return _MOMENT.sub(
        lambda found: f"{datetime.fromisoformat(found[0]).astimezone():%Y-%m-%d %H:%M:%S}", sentence
    )


def in_ms(at: datetime | None) -> float | None:
    """Take an instant as the milliseconds that the other times are written in."""
    return None if at is None else at.timestamp() * 1000


def first_line(text: str | None) -> str:
    """Take the first line of an error; the rest is for whoever looks at it alone."""
    return (text or "").strip().partition("\n")[0]


def size(amount: int) -> str:
    """Write a number of bytes in the unit that suits it: 34MB, 1.5GB."""
    unit, name = _unit_of(amount)
    return f"{decimal(amount / unit)}{name}"


def size_of(part: int, whole: int) -> str:
    """Write how much of a size is used, in the unit that suits the whole: 1.5/8GB."""
    unit, name = _unit_of(whole)
    return f"{decimal(part / unit)}/{decimal(whole / unit)}{name}"


def decimal(amount: float) -> str:
    """Write a number with one digit after the point, if it has any there."""
    return f"{amount:.1f}".removesuffix(".0")


def _unit_of(amount: int) -> tuple[int, str]:
    return next((each for each in _SIZES if amount >= each[0]), _SIZES[-1])
