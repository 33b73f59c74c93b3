"""What operators ask of a real server about types of jobs."""

from uuid import uuid4

import pytest

from holdfast.client import policies
from holdfast.client.client import Client
from holdfast.errors import Invalid, NotFound, Refused
from holdfast.model.policies import PolicyDefaults, PolicyLimits
from holdfast.wire.policies import PolicyRequest


def test_a_policy_is_set_read_and_taken_back(client: Client) -> None:
    name = f"type/{uuid4().hex} ü?"
    assert policies.get_type(client, name).version == 0
    with pytest.raises(NotFound, match="there is no policy of type"):
        policies.list_changes(client, name, 10)
    request = PolicyRequest(PolicyDefaults(lease=60.0), PolicyLimits(tasks=5))
    stored = policies.set_policy(client, name, request)
    assert (stored.defaults, stored.limits) == (request.defaults, request.limits)
    assert policies.get_type(client, name) == stored
    assert stored in policies.list_types(client, 1000)
    with pytest.raises(Refused, match="read it and decide again"):
        policies.set_policy(client, name, PolicyRequest(if_version=0))
    with pytest.raises(Invalid) as refused:
        policies.set_policy(client, name, PolicyRequest(PolicyDefaults(lease=1.0)))
    assert refused.value.field == "defaults.lease"
    assert policies.unset_policy(client, name)
    assert not policies.unset_policy(client, name)
    assert [change.after is None for change in policies.list_changes(client, name, 10)] == [
        True,
        False,
    ]
