"""The one error of the embedded Postgres."""

from holdfast.errors import Unavailable


class PostgresUnavailable(Unavailable):
    """The embedded Postgres cannot be used; the end of its log may say why."""

    def __init__(self, problem: str, remedy: str, log_tail: str = "") -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy
        self.log_tail = log_tail
        if log_tail:  # a message is one line; what was said stands below it in a traceback
            self.add_note(log_tail)
