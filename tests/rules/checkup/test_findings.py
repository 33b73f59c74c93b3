"""Findings in order, and many names in few words."""

from holdfast.rules.checkup.findings import error, ok, some_of, sort_findings, warning


def test_the_gravest_comes_first_and_each_once() -> None:
    fine, late, broken = ok("a", "x"), warning("b", "y", "do"), error("c", "z", "do")
    assert sort_findings([fine, late, fine, broken]) == [broken, late, fine]


def test_of_many_names_a_few_are_given() -> None:
    assert some_of("ab") == "a, b"
    assert some_of("abcdefg") == "a, b, c, d, e and 2 more"
