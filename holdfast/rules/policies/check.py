"""Check a policy before it is stored: no job may be refused for what it did not say itself."""

from typing import TypeVar

import msgspec

from holdfast.errors import Invalid
from holdfast.model.submitting.policies import PolicyDefaults, PolicyLimits, TypePolicy
from holdfast.model.submitting.spec import Backoff, Entrypoint, JobSpec, Limits, Submission
from holdfast.rules.policies.fill import follow_policy, limited_fields
from holdfast.rules.submitting.submission import check_numbers, check_text, complete_submission

Part = TypeVar("Part", PolicyDefaults, PolicyLimits)
AGE_MIN = 1.0
AGE_MAX = 10 * 365 * 86400.0
_NOTHING = Entrypoint(command=["true"])


def check_type(type_name: str, limits: Limits) -> None:
    """Refuse what no type can be called."""
    if not type_name:
        raise Invalid("type", "is empty; name a type of job")
    check_text("type", type_name, limits.text_length_max)


def count_retries(policy: TypePolicy) -> TypePolicy:
    """Say `max_attempts` as the retries that it means."""
    return TypePolicy(_retries("defaults", policy.defaults), _retries("limits", policy.limits))


def _retries(name: str, part: Part) -> Part:
    if part.max_attempts is None:
        return part
    if part.max_retries_failure is not None:
        raise Invalid(f"{name}.max_attempts", "means max_retries_failure + 1; give one of the two")
    if part.max_attempts < 1:
        raise Invalid(f"{name}.max_attempts", f"is {part.max_attempts}; give at least 1")
    return msgspec.structs.replace(
        part, max_attempts=None, max_retries_failure=part.max_attempts - 1
    )


def check_policy(type_name: str, policy: TypePolicy, limits: Limits) -> None:
    """Refuse limits that the server does not have, and defaults beyond either."""
    check_type(type_name, limits)
    bounds = policy.limits
    for name, field, value in limited_fields(bounds):
        _check_part(f"limits.{name}", JobSpec(_NOTHING, **{field: value}), limits)
    if bounds.lease_min is not None and bounds.lease_max is not None:
        _check_leases(bounds.lease_min, bounds.lease_max)
    if bounds.backoff_ceiling is not None:
        ceiling = Backoff(base=0.0, ceiling=bounds.backoff_ceiling)
        _check_part("limits.backoff_ceiling", JobSpec(_NOTHING, backoff=ceiling), limits)
    if bounds.age is not None and not AGE_MIN <= bounds.age <= AGE_MAX:
        problem = f"is {bounds.age}; give {AGE_MIN:.0f} to {AGE_MAX:.0f} seconds"
        raise Invalid("limits.age", problem)
    if bounds.tasks is not None:
        _check_part("limits.tasks", JobSpec(_NOTHING, replicas=bounds.tasks), limits)
    defaults = JobSpec(_NOTHING, type=type_name, **msgspec.structs.asdict(policy.defaults))
    submission = Submission(defaults)
    # The type may have claimed work, for which such a lease is long enough.
    limits = msgspec.structs.replace(limits, placed_lease_seconds_min=0.0)
    try:
        plain = complete_submission(submission, limits).spec
        follow_policy(submission, plain, policy)
    except Invalid as refused:
        raise Invalid(f"defaults.{refused.field}", refused.problem) from refused


def _check_part(name: str, spec: JobSpec, limits: Limits) -> None:
    try:
        check_numbers(spec, limits)
    except Invalid as refused:
        raise Invalid(name, refused.problem) from refused


def _check_leases(least: float, most: float) -> None:
    if least > most:
        raise Invalid("limits.lease_min", f"is {least}, more than lease_max, which is {most}")
