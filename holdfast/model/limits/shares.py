"""Rules of shares: who gets how much of a queue, or of the workers of placed work."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NamedTuple, get_args

ShareBy = Literal["owner", "key", "nothing"]
SHARE_BY: tuple[str, ...] = get_args(ShareBy)
# Under which queue the rule of placed work is kept: it has none.
PLACED = ""


class ShareRule(NamedTuple):
    """By what a queue is shared, with weights, and how its tasks age; seconds are of one step.

    By nothing, tasks age in one line.
    """

    share_by: ShareBy = "owner"
    weights: Mapping[str, float] = {}
    age_step_seconds: float | None = None
    age_max: int = 0


class StoredShareRule(NamedTuple):
    """A rule as it stands; `queue` is empty for placed work.

    Until it is sorted, some of what stood in line before it goes first. While it is ending, what
    stands in shares returns to line.
    """

    queue: str
    rule: ShareRule
    is_sorted: bool
    is_ending: bool
    updated_at: datetime
    updated_by: str
