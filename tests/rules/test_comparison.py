"""How two versions differ: a stretch at a time gives what all at once would."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.comparison import compare_stretches


class Item(NamedTuple):
    """An entry, as far as it is compared."""

    key: str
    content: int


VERSIONS = st.dictionaries(st.text("ab\u00e9\U0001f600", min_size=1, max_size=3), st.integers(0, 1))


def listed(version: dict[str, int], after: str = "", count: int = 1000) -> list[Item]:
    return [Item(key, version[key]) for key in sorted(version) if key > after][:count]


def test_what_was_added_removed_and_changed_is_told() -> None:
    before, after = {"a": 1, "b": 1, "c": 1}, {"b": 1, "c": 2, "d": 1}
    found, horizon = compare_stretches(listed(before), listed(after), 1000)
    assert [(each.kind, each.key) for each in found] == [
        ("removed", "a"), ("changed", "c"), ("added", "d"),
    ]  # fmt: skip
    assert horizon is None
    assert found[1].before == Item("c", 1)
    assert found[1].after == Item("c", 2)


@given(before=VERSIONS, after=VERSIONS, stretch=st.integers(1, 4))
def test_stretches_tell_what_the_whole_tells(
    before: dict[str, int], after: dict[str, int], stretch: int
) -> None:
    whole, _ = compare_stretches(listed(before), listed(after), 1000)
    found, key = [], ""
    for _ in range(len(before) + len(after) + 1):
        part, horizon = compare_stretches(
            listed(before, key, stretch), listed(after, key, stretch), stretch
        )
        found += part
        if horizon is None:
            break
        assert horizon > key
        key = horizon
    assert found == whole
