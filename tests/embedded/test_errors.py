"""What the error says."""

from holdfast.embedded import PostgresUnavailable
from holdfast.errors import Unavailable


def test_the_message_says_what_is_wrong_what_to_do_and_what_postgres_said() -> None:
    error = PostgresUnavailable("It is broken.", "Mend it.", "FATAL: a\nFATAL: b")
    assert isinstance(error, Unavailable)
    assert str(error) == ("It is broken.\nMend it.\nPostgres said:\n    FATAL: a\n    FATAL: b")
    assert (error.problem, error.remedy) == ("It is broken.", "Mend it.")


def test_without_a_log_the_message_ends_with_the_remedy() -> None:
    assert str(PostgresUnavailable("It is broken.", "Mend it.")) == "It is broken.\nMend it."
