"""How many streams each caller has open."""

import pytest

from holdfast.errors import LimitReached
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.services.streams import Streams


def test_one_caller_has_as_many_as_the_limit_and_another_his_own() -> None:
    refused: list[str] = []
    streams = Streams(ServerLimits(streams_max=2), refused.append)
    with streams.opened("ada"), streams.opened("ada"):
        assert streams.count() == 2
        with pytest.raises(LimitReached, match=r"streams_max: 2 .*ada.* --streams-max"):
            streams.check("ada")
        streams.check("bob")
        assert refused == ["streams_max"]
    streams.check("ada")
    assert streams.count() == 0


def test_what_ends_by_itself_is_not_counted() -> None:
    streams = Streams(ServerLimits(streams_max=1), lambda _: None)
    with streams.opened("ada"), streams.opened(None):
        streams.check(None)
        assert streams.count() == 1
