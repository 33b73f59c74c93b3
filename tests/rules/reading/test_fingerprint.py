"""Errors that differ in what varies alone are of one kind; others are not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.reading.fingerprint import (
    FINGERPRINT_LENGTH,
    LINE_LENGTH_MAX,
    fingerprint,
    first_line,
    generalise,
    is_fingerprint,
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("HTTP 503 from https://api.example.com/v1/items/7?a=b, again in 3.5s",
         "HTTP <number> from <address>, again in <number>s"),
        ("cannot reach 10.0.0.1:5432", "cannot reach <address>"),
        ("cannot reach [fe80::1]:80", "cannot reach <address>"),
        ("mail to a.b@example.org bounced", "mail to <address> bounced"),
        ("no such file: /var/lib/x-1/y.txt", "no such file: <path>"),
        ("no such file: C:\\data\\y.txt", "no such file: <path>"),
        ("KeyError: 'ann'", "KeyError: <quoted>"),
        ('bad value "a \\"b\\" 7" here', "bad value <quoted> here"),
        ("can't find Ann's cat", "can't find Ann's cat"),
        ("user 7f3a9c2e-1111-4222-8333-abcdefabcdef is gone", "user <id> is gone"),
        ("object at 0x7f3a9c2e", "object at <id>"),
        ("commit 9d30355ab1 is unknown", "commit <id> is unknown"),
        ("row 12,345 of 1_000 took 1e-5 s", "row <number> of <number> took <number> s"),
        ("a decade of facades", "a decade of facades"),
        ("Exit code 3 after 7 s", "Exit code 3 after <number> s"),
        ("Command 'x 1' returned non-zero exit status 137.",
         "Command <quoted> returned non-zero exit status 137."),
        ("exit 3", "exit <number>"),
        ("\n\n  first  line \nsecond 1", "first line"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_varies_gives_way_to_a_word(error: str, kind: str) -> None:
    assert generalise(error) == kind


WORDS = st.text("bghjkz", min_size=1, max_size=8)
VARYING = {
    "number": st.integers(0, 10**9).map(str),
    "quoted": st.text("abc 019/.", max_size=10).map(lambda text: f'"{text}"'),
    "id": st.uuids().map(str),
    "path": st.text("abc019", min_size=1, max_size=10).map(lambda text: f"/srv/{text}"),
    "address": st.text("abc019", min_size=1, max_size=10).map(lambda text: f"https://h/{text}"),
}
PARTS = st.lists(st.one_of(WORDS, st.sampled_from([f"<{name}>" for name in VARYING])), max_size=8)


@given(PARTS, st.data())
def test_errors_of_one_kind_have_one_name_and_others_another(
    parts: list[str], drawing: st.DataObject
) -> None:
    def told() -> str:
        filled = [
            drawing.draw(VARYING[part[1:-1]]) if part.startswith("<") else part for part in parts
        ]
        return " ".join(filled)

    first, second = told(), told()
    if max(len(first), len(second)) + len(" more") <= LINE_LENGTH_MAX:
        assert generalise(first) == generalise(second) == " ".join(parts)
        assert fingerprint("E", first) == fingerprint("E", second)
        assert fingerprint("E", first) != fingerprint("F", first)
        assert fingerprint("E", first) != fingerprint("E", f"{first} more")


@given(st.text(max_size=400), st.text(max_size=20))
def test_any_text_has_a_short_name_that_only_its_first_line_decides(text: str, more: str) -> None:
    name = fingerprint(None, text)
    assert re.fullmatch(rf"[0-9a-f]{{{FINGERPRINT_LENGTH}}}", name)
    if first_line(text):
        assert fingerprint(None, f"{first_line(text)}\n{more}") == name
    assert len(first_line(text)) <= LINE_LENGTH_MAX


def test_a_name_stays_what_it_is_from_release_to_release() -> None:
    assert fingerprint("ValueError", "row 7 is bad") == "d5759f2d4bee32dd"
    assert fingerprint(None, None) == fingerprint(None, "") == "01ba4719c80b6fe9"


def test_two_exit_codes_are_two_errors_whatever_else_varies() -> None:
    three, again, four = (fingerprint(None, f"exit code {text}") for text in ("3", "3", "4"))
    assert three == again != four
    assert fingerprint(None, "exit code 3 in 1.5 s") == fingerprint(None, "exit code 3 in 9 s")


def test_what_could_be_a_name_is_told_from_what_could_not() -> None:
    assert is_fingerprint(fingerprint("E", "boom"))
    for text in ("", "boom", "F" * 16, "f" * 15, "f" * 17):
        assert not is_fingerprint(text)
