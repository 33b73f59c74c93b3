"""The terms under which a job was submitted, as far as it has any."""

import msgspec

from holdfast.model.submitting.schedules import FiringKind
from holdfast.model.submitting.unique import OnConflict, UniqueState


class JobUnique(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is unique: what is compared, in which states, and whether it holds its key."""

    by: str
    states: list[UniqueState]
    on_conflict: OnConflict
    holds_key: bool
    # The beginning of the key; told to who may see arguments, as it is made of them.
    key: str | None = None


class JobFiring(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule that has submitted a job, and the instant it is for."""

    schedule: str
    instant_ms: int
    kind: FiringKind


class JobTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a job from its submission on; of each, None if it has no such term."""

    # When tasks expire that nobody has started; none if none waits.
    expires_at_ms: int | None = None
    unique: JobUnique | None = None
    firing: JobFiring | None = None
