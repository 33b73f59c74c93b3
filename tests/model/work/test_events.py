"""Events that user code writes."""

from holdfast.api.event_names import NOTES, TYPES
from holdfast.model.work.events import USER, USER_PREFIX


def test_no_event_of_ours_looks_like_one_of_user_code() -> None:
    assert USER in NOTES
    assert not [name for name in (*TYPES, *NOTES) if name.startswith(USER_PREFIX)]
