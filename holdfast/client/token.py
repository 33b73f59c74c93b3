"""What a client is known by, a token or a JWT: given, in HOLDFAST_TOKEN, in a file; never shown."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from holdfast.errors import Invalid
from holdfast.model.access.tokens import JWT_LENGTH_MAX, is_jwt, is_token

VARIABLE = "HOLDFAST_TOKEN"
FILE_VARIABLE = "HOLDFAST_TOKEN_FILE"
FILE_BYTES_MAX = JWT_LENGTH_MAX + 2
AUTHORIZATION = "Authorization"


class Speaker(Protocol):
    """Who calls a server, in the headers of each request."""

    def headers(self) -> Mapping[str, str]:
        """Give the headers that say who calls."""

    def read_again(self, refused: Mapping[str, str]) -> bool:
        """Look again for what was refused; tells whether there is something else to show."""


class Token:
    """A token to be shown, if there is one; a file is read again once a server has refused it."""

    def __init__(
        self, given: str | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._given = given
        self._environment = environment
        self._text = find_token(given, environment)

    def headers(self) -> Mapping[str, str]:
        """Give the headers that say who calls."""
        return {} if self._text is None else {AUTHORIZATION: f"Bearer {self._text}"}

    def read_again(self, refused: Mapping[str, str]) -> bool:
        """Look again for a token that was refused; tells whether there is another one by now."""
        with suppress(Invalid):  # then what was there has to do
            self._text = find_token(self._given, self._environment)
        return self.headers() != refused


def find_token(
    given: str | None = None, environment: Mapping[str, str] | None = None
) -> str | None:
    """Choose the token: the one given, that of the environment, that of the file it names."""
    if given is not None:
        return _checked(given, "token")
    if environment is None:
        environment = os.environ
    if text := environment.get(VARIABLE):
        return _checked(text, VARIABLE)
    if path := environment.get(FILE_VARIABLE):
        return _read(path)
    return None


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise Invalid(FILE_VARIABLE, f"cannot be read: {error}") from error
    return _checked(content.decode("latin-1"), FILE_VARIABLE)


def _checked(text: str, source: str) -> str:
    """Refuse what is no token, without repeating it: it may be a secret of another kind."""
    token = text.strip()
    if not is_token(token) and not is_jwt(token):
        problem = "is not a token; it looks like hf_..., from `holdfast tokens create`"
        raise Invalid(source, f"{problem}, or is a JWT of an identity provider")
    return token


# Says nothing of itself: each call shows the lease of the attempt that it is made for.
UNNAMED = Token(environment={})
