"""The one error of the embedded Postgres."""

from textwrap import indent

from holdfast.errors import Unavailable


class PostgresUnavailable(Unavailable):
    """The embedded Postgres cannot be used."""

    def __init__(self, problem: str, remedy: str, log_tail: str = "") -> None:
        message = f"{problem}\n{remedy}"
        if log_tail:
            message += f"\nPostgres said:\n{indent(log_tail, '    ')}"
        super().__init__(message)
        self.problem = problem
        self.remedy = remedy
        self.log_tail = log_tail
