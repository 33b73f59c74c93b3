"""Which errors are the same: those that differ in numbers, ids, names and places alone."""

import hashlib
import re
from functools import lru_cache

LINE_LENGTH_MAX = 200
FINGERPRINT_LENGTH = 16
KNOWN_MAX = 20_000
_UUID = r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}"
# The longer forms come first: an address or a path has numbers in it, and a quoted text anything.
_VARYING = re.compile(
    rf"""
    (?P<quoted> "(?:[^"\\]|\\.)*" | (?<![^\W_])'(?:[^'\\]|\\.)*'(?!\w) | `[^`]*` )
  | (?P<address> \b[a-z][a-z0-9+.-]*://[^\s'"<>)\],]+
      | \b[\w.+-]+@[\w-]+(?:\.[\w-]+)+
      | \b\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?\b
      | \[[0-9a-f]*:[0-9a-f:.]+\](?::\d+)? )
  | (?P<path> (?<![\w.])(?:[a-z]:\\|~?/|\.{{1,2}}/)[^\s'",:;)\]]+ )
  | (?P<id> (?<![^\W_]){_UUID}(?![^\W_]) | \b0x[0-9a-f]+\b
      | \b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{8,}}\b )
  | (?P<number> [+-]?\d+(?:[.,_:]\d+)*(?:e[+-]?\d+)? )
    """,
    re.IGNORECASE | re.VERBOSE,
)


def fingerprint(error_class: str | None, error: str | None) -> str:
    """Name the kind of an error: the same name for errors that differ in what varies alone."""
    return _name(error_class or "", first_line(error or ""))


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
    text = _VARYING.sub(lambda found: f"<{found.lastgroup}>", first_line(error))
    return " ".join(text.split())
