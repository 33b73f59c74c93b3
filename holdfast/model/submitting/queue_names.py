"""What a queue may be called: checked where it is written down, and again where it arrives."""

import re

from holdfast.errors import Invalid, TooLarge

QUEUE_LENGTH_MAX = 256
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")


def check_queue_name(queue: str) -> None:
    """Refuse what no queue can be called."""
    if len(queue) > QUEUE_LENGTH_MAX:
        raise TooLarge("queue", len(queue), QUEUE_LENGTH_MAX, unit="characters")
    if not _QUEUE.fullmatch(queue):
        raise Invalid("queue", f"{queue!r} is not a queue name; use letters, digits and ._:/-")
