"""Let a job follow the policy of its type: what it says is held to the limits, the rest filled in.

The function `holdfast.follow_policy` of the database does the same for submissions by SQL.
"""

from typing import Any

import msgspec

from holdfast.errors import Invalid
from holdfast.model.submitting.policies import PolicyLimits, TypePolicy
from holdfast.model.submitting.spec import Backoff, JobSpec, Submission

# In the order in which they are checked: the field of a spec, and of the limits its least and most.
_RANGES = (
    ("lease", "lease_min", "lease_max"),
    ("max_retries_failure", None, "max_retries_failure"),
    ("max_retries_preemption", None, "max_retries_preemption"),
    ("timeout", None, "timeout"),
    ("grace", None, "grace"),
    ("priority", None, "priority"),
)
_CHOICES = ("on_exhausted", "on_timeout", "verbose_events")


def is_held_to_policies(submission: Submission) -> bool:
    """Tell what users submit from what the server makes of a job that was taken in before."""
    return submission.replay_of is None and submission.compensates_job_id is None


def follow_policy(asked: Submission, plain: JobSpec, policy: TypePolicy) -> JobSpec:
    """Fill what a spec leaves open; raises Invalid for what it asks for beyond the limits.

    `plain` is what the job would be without the policy. What comes from neither the job nor the
    policy is moved into the limits.
    """
    spec, limits = asked.spec, policy.limits
    kind = plain.type or ""
    filled: dict[str, Any] = {}
    for field, low, high in _RANGES:
        least, most = low and getattr(limits, low), getattr(limits, high)
        own = getattr(spec, field)
        if field == "max_retries_failure" and spec.max_attempts is not None:
            most = None if most is None else most + 1
            _check("max_attempts", spec.max_attempts, kind, least=None, most=most)
        elif own is not None:
            _check(field, own, kind, least=least, most=most)
        else:
            builtin = _builtin(plain, field)
            default = getattr(policy.defaults, field)
            filled[field] = _move(builtin if default is None else default, least, most)
    filled["backoff"] = _backoff(spec, kind, policy)
    for field in _CHOICES:
        filled[field] = _choose(field, getattr(spec, field), kind, policy=policy)
    field = "inputs" if spec.replicas is None else "replicas"
    _check(field, asked.num_tasks, kind, least=None, most=limits.tasks)
    return msgspec.structs.replace(spec, **filled)


def _builtin(plain: JobSpec, field: str) -> Any:
    value = getattr(plain, field)
    return 0 if value is None and field == "priority" else value


def _move(value: Any, least: Any, most: Any) -> Any:
    """Move a value into the limits; no timeout at all is more than any."""
    if most is not None and (value is None or value > most):
        return most
    return least if least is not None and value < least else value


def _backoff(spec: JobSpec, kind: str, policy: TypePolicy) -> Backoff | None:
    most = policy.limits.backoff_ceiling
    if spec.backoff is not None:
        _check("backoff.ceiling", spec.backoff.ceiling, kind, least=None, most=most)
        return spec.backoff
    if policy.defaults.backoff is not None:
        return policy.defaults.backoff
    builtin = Backoff()
    if most is None or most >= builtin.ceiling:
        return None
    return Backoff(min(builtin.base, most), builtin.factor, most)


def _choose(field: str, own: Any, kind: str, *, policy: TypePolicy) -> Any:
    only = getattr(policy.limits, field)
    if own is None:
        return getattr(policy.defaults, field) if only is None else only
    if only is not None and own != only:
        shown = str(only).lower() if isinstance(only, bool) else only
        raise Invalid(field, f"type {kind} allows {shown} only")
    return own


def _check(field: str, value: Any, kind: str, *, least: Any, most: Any) -> None:
    if most is not None and value > most:
        raise Invalid(field, f"{value} is beyond what type {kind} allows; use at most {most}")
    if least is not None and value < least:
        raise Invalid(field, f"{value} is beyond what type {kind} allows; use at least {least}")


def limited_fields(limits: PolicyLimits) -> list[tuple[str, str, Any]]:
    """List the limits of numbers: the name of each, the spec's field, and the value."""
    pairs = [(name, field) for field, *names in _RANGES for name in names if name is not None]
    found = [(name, field, getattr(limits, name)) for name, field in pairs]
    return [item for item in found if item[2] is not None]
