"""Why a task stands where it stands, as it goes over the wire."""

from typing import Any

import msgspec
import pytest

from holdfast.model.workers.near_misses import Lack, NearMiss
from holdfast.wire.explanations import Explanation, PendingReason, WhatIfAnswer


@pytest.mark.parametrize("shape", [Explanation, PendingReason, WhatIfAnswer, NearMiss, Lack])
def test_every_field_is_always_there_and_readers_ignore_more(shape: Any) -> None:
    assert not shape.__struct_config__.omit_defaults
    assert not shape.__struct_config__.forbid_unknown_fields
    assert shape.__doc__


def test_an_explanation_survives_the_wire() -> None:
    near = NearMiss("id", "a", [Lack("lacks_resources", "no gpu (needs 1)", "gpu", 1, 0, 0)])
    reason = PendingReason("lacks_resources", "why", {"waiting": 1}, [near])
    sent = Explanation("1.0", "TASK_STATE_PENDING", [], reason, WhatIfAnswer("with 1 gpu", reason))
    assert msgspec.json.decode(msgspec.json.encode(sent), type=Explanation) == sent
