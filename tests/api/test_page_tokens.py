"""Page sizes and tokens."""

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.page_tokens import (
    EventToken,
    IndexToken,
    JobToken,
    PageToken,
    TaskToken,
    WorkerToken,
    check_page_size,
    read_token,
    write_token,
)
from holdfast.errors import Invalid

PLACES = [JobToken(4182), IndexToken(-1), TaskToken(7, 3), EventToken(10**15, 9)]


@pytest.mark.parametrize("place", [*PLACES, WorkerToken(2, "host/w:1")], ids=repr)
def test_a_token_leads_back_to_where_it_was_made(place: PageToken) -> None:
    token = write_token(place)
    assert token is not None
    assert read_token(token, type(place)) == place
    assert token.replace("-", "").replace("_", "").isalnum()


def test_no_token_is_the_beginning_and_the_end() -> None:
    assert read_token(None, JobToken) is None
    assert write_token(None) is None


@pytest.mark.parametrize(
    "token",
    ["", "x", "4182", "W10", "é", "\x00", "a b", write_token(TaskToken(1, 2)), "W" * 10_000]
    + [base64.urlsafe_b64encode(text).decode() for text in (b'["x"]', b"[-1]", b"[1e300]", b"{}")]
    + [base64.urlsafe_b64encode(b"[%d]" % 2**63).decode()],
)
def test_a_token_of_something_else_is_refused(token: str) -> None:
    with pytest.raises(Invalid, match="page_token: is not from this list") as caught:
        read_token(token, JobToken)
    assert caught.value.field == "page_token"


def test_a_worker_in_a_token_is_one_that_the_database_can_compare() -> None:
    token = base64.urlsafe_b64encode(b'[1,"a\\u0000b"]').decode()
    with pytest.raises(Invalid, match="page_token"):
        read_token(token, WorkerToken)


@given(st.text())
def test_no_text_does_worse_than_to_be_refused(text: str) -> None:
    for shape in (JobToken, IndexToken, TaskToken, EventToken, WorkerToken):
        with suppress(Invalid):
            read_token(text, shape)


@pytest.mark.parametrize("page_size", [0, -1, 1001, 10**30])
def test_a_page_has_a_size_from_one_to_a_thousand(page_size: int) -> None:
    with pytest.raises(Invalid, match=f"page_size: is {page_size}; use 1 to 1000"):
        check_page_size(page_size)
    assert check_page_size(1) == 1
    assert check_page_size(1000) == 1000
