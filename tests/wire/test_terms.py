"""The terms of jobs on the wire."""

import msgspec

from holdfast.wire.terms import JobFiring, JobTerms


def test_what_a_job_has_not_may_be_left_out() -> None:
    """A server of an earlier release says nothing of terms that it does not know."""
    told = b'{"firing": {"schedule": "nightly", "instant_ms": 5, "kind": "manual"}}'
    firing = JobFiring(schedule="nightly", instant_ms=5, kind="manual")
    assert msgspec.json.decode(told, type=JobTerms) == JobTerms(firing=firing)
