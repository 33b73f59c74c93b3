"""What the error says."""

from holdfast.embedded import PostgresUnavailable
from holdfast.errors import Unavailable


def test_the_message_says_what_is_wrong_what_to_do_and_what_postgres_said() -> None:
    error = PostgresUnavailable("It is broken.", "Mend it.", "FATAL: a\nFATAL: b")
    assert isinstance(error, Unavailable)
    assert str(error) == "It is broken. Mend it."
    assert (error.problem, error.remedy) == ("It is broken.", "Mend it.")
    assert error.log_tail == "FATAL: a\nFATAL: b"
