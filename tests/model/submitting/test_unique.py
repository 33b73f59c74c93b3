"""What makes a job unique, as it is read and written."""

import msgspec
import pytest

from holdfast.model.submitting.unique import Unique


def test_what_is_not_said_is_not_written() -> None:
    assert msgspec.json.encode(Unique()) == b"{}"
    text = b'{"arguments":[],"on_conflict":"replace","keep_start":true}'
    read = msgspec.json.decode(text, type=Unique)
    assert read == Unique(arguments=[], on_conflict="replace", keep_start=True)
    assert msgspec.json.encode(read) == text


def test_states_have_their_small_names() -> None:
    with pytest.raises(msgspec.ValidationError, match="PENDING"):
        msgspec.json.decode(b'{"states":["PENDING"]}', type=Unique)
