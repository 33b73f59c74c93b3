"""Workers are told what they need of a job, and what it stands for."""

from holdfast.model.submitting.spec import Limits, Submission
from holdfast.rules.submitting.submission import complete_submission, parse_spec, terms_of
from holdfast.services.job_descriptions import describe_job
from holdfast.store.specs import StoredSpec


def test_a_job_is_described_by_its_complete_spec() -> None:
    spec = parse_spec(
        {
            "entrypoint": {"shell": "make"},
            "name": "build",
            "queue": "q",
            "timeout": 5,
            "environment": {"A": "1"},
        }
    )
    whole = complete_submission(Submission(spec, ("1", "2")), Limits()).spec
    stored = StoredSpec(whole, terms_of(whole), "build", 2, "c", "t", {})
    told = describe_job(7, stored)
    assert (told.job_id, told.name, told.type, told.num_tasks) == ("7", "build", "build", 2)
    assert (told.queue, told.timeout, told.environment) == ("q", 5, {"A": "1"})
    assert (told.lease, told.grace, told.fan_out) == (30.0, 30.0, True)
    assert (told.correlation_id, told.trace_id) == ("c", "t")
    assert told.entrypoint.shell == "make"
