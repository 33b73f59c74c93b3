"""Policies: what an operator has decided for all jobs of a type."""

from datetime import datetime

import msgspec

from holdfast.model.submitting.spec import Backoff, OnExhausted, OnTimeout


class PolicyDefaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a job of the type gets where its own spec says nothing; durations are seconds.

    `max_attempts` is another name on input: n of them are `max_retries_failure` = n - 1.
    """

    lease: float | None = None
    max_attempts: int | None = None
    max_retries_failure: int | None = None
    max_retries_preemption: int | None = None
    backoff: Backoff | None = None
    on_exhausted: OnExhausted | None = None
    timeout: float | None = None
    on_timeout: OnTimeout | None = None
    grace: float | None = None
    priority: int | None = None
    verbose_events: bool | None = None


class PolicyLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a job of the type may ask for: at most this much, or only this.

    `age` is no field of a job: what has not finished so long after its submission is dead-lettered.
    """

    lease_min: float | None = None
    lease_max: float | None = None
    max_attempts: int | None = None
    max_retries_failure: int | None = None
    max_retries_preemption: int | None = None
    timeout: float | None = None
    grace: float | None = None
    priority: int | None = None
    backoff_ceiling: float | None = None
    tasks: int | None = None
    age: float | None = None
    on_exhausted: OnExhausted | None = None
    on_timeout: OnTimeout | None = None
    verbose_events: bool | None = None


class TypePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The defaults and limits of one type of job."""

    defaults: PolicyDefaults = PolicyDefaults()
    limits: PolicyLimits = PolicyLimits()


class StoredPolicy(msgspec.Struct, frozen=True):
    """A policy as it stands: `version` is the number of the change that made it so."""

    type: str
    policy: TypePolicy
    version: int
    updated_at: datetime
    updated_by: str


class PolicyChange(msgspec.Struct, frozen=True):
    """One change: what there was before and after, or None."""

    version: int
    type: str
    before: TypePolicy | None
    after: TypePolicy | None
    actor: str
    changed_at: datetime
