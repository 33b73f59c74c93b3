"""Pickles are opened wherever the classes in them have moved to."""

import base64

import cloudpickle
import pytest

import holdfast
from holdfast.client.pickles import unpickle


def test_what_was_pickled_is_opened() -> None:
    text = base64.b64encode(cloudpickle.dumps((lambda number: number + 1, (1,), {}))).decode()
    call, args, kwargs = unpickle(text)
    assert call(*args, **kwargs) == 2


@pytest.mark.parametrize("name", ["Resources", "Backoff", "Output", "PolicyLimits"])
def test_a_public_class_is_found_wherever_it_was_when_it_was_pickled(name: str) -> None:
    before = b"choldfast.model.before\n" + name.encode() + b"\n."
    assert unpickle(base64.b64encode(before).decode()) is getattr(holdfast, name)


def test_what_is_not_public_is_not_looked_up_elsewhere() -> None:
    with pytest.raises(ModuleNotFoundError, match="before"):
        unpickle(base64.b64encode(b"choldfast.model.before\nLease\n.").decode())
