"""What people have done, on the wire."""

import msgspec

from holdfast.wire.actions import Action


def test_facts_pass_through_as_they_were_written() -> None:
    text = b'{"id":7,"at_ms":1,"actor":"ann","action":"cancel","subject_kind":"job","subject":"42",'
    text += b'"reason":null,"facts":{"mode":"soft"},"token_id":null}'
    assert msgspec.json.encode(msgspec.json.decode(text, type=Action)) == text
