"""What server and worker say while they run: lines for people, or JSON lines for programs."""

import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, TextIO

from holdfast.cli.output.text import inert
from holdfast.cli.output.unread import WhileRead
from holdfast.errors import Unavailable
from holdfast.tracing.current import describe_current

FIELDS = ("task_id", "attempt", "job_id", "worker_id", "correlation_id", "trace_id")
# A person finds the trace by these.
PLAIN_FIELDS = FIELDS[:-1]
_OURS = "holdfast."


class PlainLines(logging.Formatter):
    """One line for a person; only a traceback takes more."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as time, level, who and what."""
        at = datetime.fromtimestamp(record.created)
        name = record.name.removeprefix(_OURS)
        ids = "".join(f" {field}={text}" for field, text in _ids(record, PLAIN_FIELDS).items())
        line = inert(f"{record.getMessage()}{ids}")
        text = f"{at:%H:%M:%S} {record.levelname.lower():<8} {inert(name)}: {line}"
        if record.exc_info:
            text += "\n" + inert(self.formatException(record.exc_info), keep="\n\t")
        return text


class JsonLines(logging.Formatter):
    """One JSON object a line, with ids as fields of their own: of what it is about, if it says so.

    Otherwise of the attempt that this code runs for, or of the span that is current.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as JSON; text that is no Unicode is escaped, nothing is dropped."""
        fields: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **describe_current(),
            **_ids(record, FIELDS),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def set_up_logging(
    log_format: Literal["auto", "plain", "json"] = "auto", stream: TextIO | None = None
) -> None:
    """Send what this program logs to standard error, in the form that its reader wants."""
    target = sys.stderr if stream is None else stream
    is_plain = log_format == "plain" or (log_format == "auto" and target.isatty())
    lines = logging.StreamHandler(WhileRead(target))
    lines.addFilter(_is_new)
    lines.setFormatter(PlainLines() if is_plain else JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[lines], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _is_new(record: logging.LogRecord) -> bool:
    """Tell what is only one more consequence of an outage, which has been logged, from the rest."""
    words = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(word, Unavailable) and word.is_logged for word in words)


def _ids(record: logging.LogRecord, fields: Sequence[str]) -> dict[str, object]:
    found = {field: getattr(record, field, None) for field in fields}
    return {field: value for field, value in found.items() if value is not None}
