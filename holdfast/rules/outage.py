"""When nobody watched the leases: an outage costs no task its budget.

Every reaper pass stores its time. A gap means that the database or every server was away, and that
workers had nobody to renew with: the reaper waits, then ends what ran out meanwhile free of charge.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

GAP_MAX = timedelta(seconds=10)
WAIT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Watch:
    """When the leases were last looked at, and the last outage."""

    last_pass_at: datetime
    outage_from: datetime | None = None
    outage_until: datetime | None = None


def next_watch(watch: Watch, now: datetime) -> Watch:
    """Take note of a pass; a gap before it opens an outage, or lengthens the one under way."""
    if now - watch.last_pass_at <= GAP_MAX:
        return Watch(max(now, watch.last_pass_at), watch.outage_from, watch.outage_until)
    outage_from = watch.last_pass_at
    if watch.outage_from and watch.outage_until and watch.last_pass_at < watch.outage_until:
        outage_from = watch.outage_from
    return Watch(now, outage_from, now + WAIT)


def is_waiting(watch: Watch, now: datetime) -> bool:
    """Tell whether leases are left alone for now, so that workers can renew first."""
    return watch.outage_until is not None and now < watch.outage_until


def is_free(watch: Watch, expires_at: datetime) -> bool:
    """Tell whether a lease ran out because nobody was there to renew it."""
    if watch.outage_from is None or watch.outage_until is None:
        return False
    return watch.outage_from <= expires_at <= watch.outage_until
