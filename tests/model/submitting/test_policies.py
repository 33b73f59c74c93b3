"""Policies as values: what is not set is not written, and what is unknown is an error."""

import msgspec
import pytest

from holdfast.model.submitting.policies import PolicyDefaults, PolicyLimits, TypePolicy
from holdfast.model.submitting.spec import JobSpec


def test_a_policy_is_written_as_what_it_sets() -> None:
    policy = TypePolicy(PolicyDefaults(lease=60.0), PolicyLimits(tasks=5))
    text = msgspec.json.encode(policy)
    assert text == b'{"defaults":{"lease":60.0},"limits":{"tasks":5}}'
    assert msgspec.json.decode(text, type=TypePolicy) == policy
    with pytest.raises(msgspec.ValidationError, match="leese"):
        msgspec.convert({"defaults": {"leese": 1}}, TypePolicy)


def test_every_default_is_a_field_of_a_job() -> None:
    assert set(PolicyDefaults.__struct_fields__) < set(JobSpec.__struct_fields__)
