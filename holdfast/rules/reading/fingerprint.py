"""Which errors are the same: those that differ in numbers, ids, names and places alone.

Exit codes are no such numbers: two of them are two errors.
"""

import hashlib
import re
from functools import cache, lru_cache

LINE_LENGTH_MAX = 200
FINGERPRINT_LENGTH = 16
KNOWN_MAX = 20_000
_UUID = r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}"
# What varies, and the sign without which a line has nothing of the form: a long pattern is slow,
# and most lines need little of it. The longer forms come first: an address or a path has numbers in
# it, and a quoted text anything.
_FORMS = (
    ("quoted", '"', r'"(?:[^"\\]|\\.)*"'),
    ("quoted", "'", r"(?<![^\W_])'(?:[^'\\]|\\.)*'(?!\w)"),
    ("quoted", "`", r"`[^`]*`"),
    ("address", "://", r"""\b[a-z][a-z0-9+.-]*://[^\s'"<>)\],]+"""),
    ("address", "@", r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    ("address", ".", r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"),
    ("address", "[", r"\[[0-9a-f]*:[0-9a-f:.]+\](?::\d+)?"),
    ("path", "/", r"""(?<![\w.])(?:[a-z]:\\|~?/|\.{1,2}/)[^\s'",:;)\]]+"""),
    ("path", "\\", r"""(?<![\w.])[a-z]:\\[^\s'",:;)\]]+"""),
    # Kept as it is: a program that ends with 3 has met something else than one that ends with 4.
    (None, "xit", r"\bexit(?:ed with)? (?:code|status) \d+\b"),
    ("id", "", rf"(?<![^\W_]){_UUID}(?![^\W_])|\b0x[0-9a-f]+\b"),
    ("id", "", r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b"),
    ("number", "", r"[+-]?\d+(?:[.,_:]\d+)*(?:e[+-]?\d+)?"),
)


def fingerprint(error_class: str | None, error: str | None) -> str:
    """Name the kind of an error: the same name for errors that differ in what varies alone."""
    return _name(error_class or "", first_line(error or ""))


def is_fingerprint(text: str) -> bool:
    """Tell whether a text could be the name of a kind of error."""
    return re.fullmatch(rf"[0-9a-f]{{{FINGERPRINT_LENGTH}}}", text) is not None


# Whoever looks at a list looks again soon, and most of it is the same.
@lru_cache(maxsize=KNOWN_MAX)
def _name(error_class: str, line: str) -> str:
    kind = f"{error_class}\n{generalise(line)}"
    return hashlib.sha256(kind.encode("utf-8", "replace")).hexdigest()[:FINGERPRINT_LENGTH]


def first_line(error: str) -> str:
    """Take the first line that says anything, up to a length."""
    return error.lstrip()[:LINE_LENGTH_MAX].partition("\n")[0].rstrip()


def generalise(error: str) -> str:
    """Put a word in the place of whatever varies in the first line of an error."""
    line = first_line(error)
    pattern, words = _pattern(tuple(sign in line for _, sign, _ in _FORMS))
    text = pattern.sub(lambda found: words[found.lastindex or 0] or found[0], line)
    return " ".join(text.split())


@cache
def _pattern(has_sign: tuple[bool, ...]) -> tuple[re.Pattern[str], list[str | None]]:
    """Make a pattern of the forms that can be there, and name the word for each."""
    forms = [form for form, has in zip(_FORMS, has_sign, strict=True) if has]
    pattern = re.compile("|".join(f"({form})" for _, _, form in forms), re.IGNORECASE)
    return pattern, [None, *(word and f"<{word}>" for word, _, _ in forms)]
