"""`client.types` on a real server."""

from uuid import uuid4

import pytest

from holdfast.client.client import Client
from holdfast.errors import Invalid, NotFound, Refused
from holdfast.model.submitting.policies import PolicyDefaults, PolicyLimits
from holdfast.wire.policies import PolicyRequest
from tests.client.namespaces.conftest import Face


def test_a_policy_is_set_read_and_taken_back(call: Face, client: Client) -> None:
    name = f"type/{uuid4().hex} ü?"
    types = client.types
    assert call(types.get, name).version == 0
    with pytest.raises(NotFound, match="there is no policy of type"):
        call(types.history, name)
    request = PolicyRequest(PolicyDefaults(lease=60.0), PolicyLimits(tasks=5))
    stored = call(types.set, name, request)
    assert (stored.defaults, stored.limits) == (request.defaults, request.limits)
    assert call(types.get, name) == stored
    assert stored in call(types.list, count_max=1000).types
    with pytest.raises(Refused, match="read it and decide again"):
        call(types.set, name, PolicyRequest(if_version=0))
    with pytest.raises(Invalid) as refused:
        call(types.set, name, PolicyRequest(PolicyDefaults(lease=1.0)))
    assert refused.value.field == "defaults.lease"
    assert call(types.unset, name)
    assert not call(types.unset, name)
    changes = call(types.history, name, count_max=10).changes
    assert [change.after is None for change in changes] == [True, False]
