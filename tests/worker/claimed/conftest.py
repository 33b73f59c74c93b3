"""A runner of functions within the test process."""

import sys
from collections.abc import AsyncIterator
from types import ModuleType

import pytest

from tests.worker.claimed.inside import Inside


@pytest.fixture
async def inside(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Inside]:
    """A runner of functions that are found in a module of their own."""
    module = ModuleType("made_up_functions")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    inside = Inside(module)
    yield inside
    inside.runner.close()
