"""How bundles are named."""

import pytest

from holdfast.errors import Invalid
from holdfast.wire.bundles import bundle_path, check_bundle_hash


def test_a_content_hash_is_a_name() -> None:
    name = "0123456789abcdef" * 4
    assert check_bundle_hash(name) == name
    assert bundle_path(name) == f"/api/bundles/{name}"


@pytest.mark.parametrize(
    "text", ["", "a", "A" * 64, "g" * 64, "a" * 63, "a" * 65, "../" + "a" * 61]
)
def test_anything_else_is_not(text: str) -> None:
    with pytest.raises(Invalid, match="is not a content hash") as refused:
        check_bundle_hash(text)
    assert refused.value.field == "bundle"


def test_of_a_long_text_a_part_is_repeated() -> None:
    with pytest.raises(Invalid) as refused:
        check_bundle_hash("x" * 10_000)
    assert len(str(refused.value)) < 300
