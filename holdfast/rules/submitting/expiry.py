"""Jobs that expire: which time can be meant, and what is said of what nobody has started."""

from datetime import UTC, datetime

from holdfast.errors import Invalid
from holdfast.model.submitting.spec import JobSpec


def check_expiry(spec: JobSpec) -> None:
    """Refuse a job that could never start before it expires."""
    if spec.expires is not None and spec.expires_at is not None:
        raise Invalid("expires", "goes without expires_at; give one of the two")
    never = "ends before the job may start; let it expire later"
    if spec.expires_at is not None and spec.expires_at <= (spec.not_before or -1.0):
        raise Invalid("expires_at", never)
    if spec.expires is not None and spec.expires <= (spec.start_delay or 0.0):
        raise Invalid("expires", never)


def say_expired(spec: JobSpec) -> str:
    """Say why a task that has expired ended."""
    if spec.expires_at is None:
        return f"expired: nobody started it within {spec.expires:g} s"
    until = datetime.fromtimestamp(spec.expires_at, UTC)
    return f"expired: nobody started it before {until:%Y-%m-%d %H:%M:%S} UTC"
