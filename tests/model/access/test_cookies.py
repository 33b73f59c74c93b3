"""The cookie of a session: who gets it, and by which name it is known."""

from datetime import timedelta

import pytest

from holdfast.model.access.cookies import drop_cookie, find_secret, is_cookie_path, write_cookie

SECRET, OTHER = "a" * 64, "b" * 64
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("path", "is_secure", "begins", "ends"),
    [
        ("/", True, "__Host-holdfast=", "; Secure"),
        ("/ops/holdfast/", True, "__Secure-holdfast=", "; Secure"),
        ("/", False, "holdfast=", "; SameSite=Strict"),
    ],
)
def test_no_script_and_no_other_site_gets_it(
    path: str, is_secure: bool, begins: str, ends: str
) -> None:
    written = write_cookie(SECRET, path=path, is_secure=is_secure, lasts=HOUR)
    assert written.startswith(f"{begins}{SECRET}; Path={path}; Max-Age=3600; HttpOnly; SameSite")
    assert written.endswith(ends)
    assert "Domain" not in written
    assert find_secret(written.partition(";")[0].encode()) == SECRET
    dropped = drop_cookie(path=path, is_secure=is_secure)
    assert dropped.startswith(f"{begins}; Path={path}; Max-Age=0;")


def test_it_is_found_among_others_and_the_safest_name_counts() -> None:
    assert find_secret(f"a=b; holdfast={SECRET};c=d".encode()) == SECRET
    assert find_secret(f"holdfast={OTHER}; __Host-holdfast={SECRET}".encode()) == SECRET
    # Below a path of a proxy there may be one for the path, which comes first, and one for all.
    assert find_secret(f"__Secure-holdfast={SECRET}; __Secure-holdfast={OTHER}".encode()) == SECRET


@pytest.mark.parametrize(
    "header", [b"", b"holdfast", b"holdfast=", b"holdfast=abc", b"x-holdfast=" + b"a" * 64, b"\xff"]
)
def test_what_is_no_secret_is_not_taken_for_one(header: bytes) -> None:
    assert find_secret(header) is None


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/", True),
        ("/ops/holdfast/", True),
        ("/a%20b/~x/", True),
        ("", False),
        ("ops/", False),
        ("/ops", False),
        ("//", False),
        ("/a; Domain=example/", False),
        ("/a b/", False),
        ("/a\r\nSet-Cookie: x=y/", False),
        ("/" + "a" * 600 + "/", False),
    ],
)
def test_a_path_ends_nothing_but_itself(path: str, is_one: bool) -> None:
    assert is_cookie_path(path) is is_one
