"""Following a policy: the job's own word within the limits, then the policy's, then ours."""

from typing import Any

import msgspec
import pytest

from holdfast.errors import Invalid
from holdfast.model.submitting.policies import PolicyLimits, TypePolicy
from holdfast.model.submitting.spec import JobSpec, Limits, Submission
from holdfast.rules.policies.fill import limited_fields
from holdfast.rules.submitting.submission import complete_submission, parse_spec, terms_of


def policy_for(
    defaults: dict[str, Any] | None = None, limits: dict[str, Any] | None = None
) -> TypePolicy:
    return msgspec.convert({"defaults": defaults or {}, "limits": limits or {}}, TypePolicy)


def follow(policy: TypePolicy, inputs: int = 0, **fields: Any) -> Submission:
    fields = {"entrypoint": {"function": "app:work"}, "queue": "q"} | fields
    texts = ("1",) * inputs if inputs else None
    return complete_submission(Submission(parse_spec(fields), texts), Limits(), {"work": policy})


DEFAULTS = {
    "lease": 45.0,
    "max_retries_failure": 3,
    "max_retries_preemption": 7,
    "backoff": {"base": 2.0, "factor": 3.0, "ceiling": 9.0},
    "on_exhausted": "fail",
    "timeout": 600.0,
    "on_timeout": "kill",
    "grace": 5.0,
    "priority": 4,
    "verbose_events": True,
}
OWN: dict[str, Any] = {
    "lease": 46.0,
    "max_retries_failure": 0,
    "max_retries_preemption": 0,
    "backoff": {"base": 0.5, "factor": 2.0, "ceiling": 60.0},
    "on_exhausted": "dead_letter",
    "timeout": 1.0,
    "on_timeout": "fail",
    "grace": 0.0,
    "priority": 0,
    "verbose_events": False,
}


def test_a_default_fills_what_a_job_leaves_open() -> None:
    spec = msgspec.to_builtins(follow(policy_for(DEFAULTS)).spec)
    assert {field: spec[field] for field in DEFAULTS} == DEFAULTS


def test_a_job_s_own_word_wins_even_where_it_is_nought() -> None:
    spec = follow(policy_for(DEFAULTS), 0, **OWN).spec
    told = msgspec.to_builtins(terms_of(spec))
    assert {field: told[field] for field in OWN if field in told} == {
        field: value for field, value in OWN.items() if field != "verbose_events"
    }
    assert spec.verbose_events is False
    assert follow(policy_for(DEFAULTS), max_attempts=2).spec.max_retries_failure == 1


def test_a_policy_is_for_its_type_alone() -> None:
    policy = policy_for(DEFAULTS)
    assert follow(policy, type="another").spec.lease == 30.0
    assert follow(policy, type="another").plain is None
    assert follow(policy, entrypoint={"command": ["/bin/work"]}).spec.lease == 45.0


def test_what_nobody_says_is_moved_into_the_limits() -> None:
    limits = {"lease_min": 50.0, "max_retries_preemption": 2, "timeout": 60.0, "grace": 1.0}
    spec = follow(policy_for(limits=limits | {"priority": -1, "on_exhausted": "fail"})).spec
    assert (spec.lease, spec.max_retries_preemption, spec.timeout) == (50.0, 2, 60.0)
    assert (spec.grace, spec.priority, spec.on_exhausted) == (1.0, -1, "fail")
    short = follow(policy_for(limits={"backoff_ceiling": 0.2, "lease_max": 30.0})).spec
    assert short.backoff is not None
    assert (short.backoff.base, short.backoff.ceiling, short.lease) == (0.2, 0.2, 30.0)
    assert follow(policy_for(limits={"backoff_ceiling": 60.0})).spec.backoff is None


@pytest.mark.parametrize(
    ("limits", "asked", "field", "words"),
    [
        ({"lease_min": 40.0}, {"lease": 35.0}, "lease", "35.0 is beyond .* at least 40.0"),
        ({"lease_max": 40.0}, {"lease": 45.0}, "lease", "type work allows; use at most 40.0"),
        ({"max_retries_failure": 2}, {"max_retries_failure": 3}, "max_retries_failure", "most 2"),
        ({"max_retries_failure": 2}, {"max_attempts": 4}, "max_attempts", "4 is .* most 3"),
        ({"max_retries_preemption": 0}, {"max_retries_preemption": 1}, "max_retries_preemption",
         "most 0"),
        ({"timeout": 9.0}, {"timeout": 10.0}, "timeout", "most 9.0"),
        ({"grace": 9.0}, {"grace": 10.0}, "grace", "most 9.0"),
        ({"priority": 1}, {"priority": 2}, "priority", "most 1"),
        ({"backoff_ceiling": 9.0}, {"backoff": {}}, "backoff.ceiling", "most 9.0"),
        ({"on_exhausted": "fail"}, {"on_exhausted": "dead_letter"}, "on_exhausted",
         "type work allows fail only"),
        ({"on_timeout": "kill"}, {"on_timeout": "fail"}, "on_timeout", "kill only"),
        ({"verbose_events": False}, {"verbose_events": True}, "verbose_events", "false only"),
        ({"tasks": 2}, {"replicas": 3}, "replicas", "most 2"),
        ({"tasks": 2}, {"inputs": 3}, "inputs", "most 2"),
    ],
)  # fmt: skip
def test_a_job_beyond_a_limit_is_refused_by_its_field(
    limits: dict[str, Any], asked: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        follow(policy_for(limits=limits), **asked)
    assert refused.value.field == field
    assert "work" in str(refused.value)


def test_replays_and_compensations_are_left_as_they_are() -> None:
    policy = policy_for(DEFAULTS, {"priority": 1, "lease_max": 40.0})
    policy = msgspec.structs.replace(policy, defaults=policy_for({"priority": 1}).defaults)
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "lease": 100, "type": "work"})
    for made in (Submission(spec, replay_of=7), Submission(spec, compensates_job_id=7)):
        done = complete_submission(made, Limits(), {"work": policy})
        assert (done.spec.lease, done.spec.priority, done.plain) == (100.0, None, None)


def test_a_repeat_is_known_by_what_it_is_without_a_policy() -> None:
    plain = follow(policy_for(), type="another", name="work").spec
    done = follow(policy_for(DEFAULTS))
    assert done.plain is not None
    assert msgspec.structs.replace(done.plain, type="another") == plain


def test_every_limit_of_a_number_is_listed() -> None:
    numbers = {"lease_min": 1.0, "lease_max": 1.0, "max_retries_failure": 1, "timeout": 1.0,
               "max_retries_preemption": 1, "grace": 1.0, "priority": 1}  # fmt: skip
    listed = limited_fields(msgspec.convert(numbers | {"tasks": 1}, PolicyLimits))
    assert {name for name, _, _ in listed} == set(numbers)
    assert {field for _, field, _ in listed} < set(JobSpec.__struct_fields__)
