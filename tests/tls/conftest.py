from pathlib import Path

import pytest

from tests.certificates import TestAuthority


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    """A CA of this test's own."""
    return TestAuthority(tmp_path / "ca")
