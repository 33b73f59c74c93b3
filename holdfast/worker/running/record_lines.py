"""Log records as lines of an attempt's output."""

import logging

_OURS = "holdfast."


class RecordLines(logging.Formatter):
    """Level, logger and message; the time is kept with the output."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as a line, and a traceback as more of them."""
        name = record.name.removeprefix(_OURS)
        line = f"{record.levelname} {name}: {record.getMessage()}"
        if record.exc_info:
            line += f"\n{self.formatException(record.exc_info)}"
        return line


def set_up_records() -> None:
    """Write the log records of this process to its output, unless somebody has set that up."""
    lines = logging.StreamHandler()
    lines.setFormatter(RecordLines())
    logging.basicConfig(level=logging.INFO, handlers=[lines])
