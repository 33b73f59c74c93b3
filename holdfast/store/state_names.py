"""States by name in SQL: `{FAILED}` stands for a state's number, `{LIVE}` for those of a set."""

import re

from holdfast.model.work.states import (
    ENDED_STATES,
    LIVE_STATES,
    OPEN_STATES,
    OUTCOME_STATES,
    TaskState,
)

_TOKEN = re.compile(r"\{([A-Z_]+)\}")
_SETS = {
    "OPEN": OPEN_STATES,
    "LIVE": LIVE_STATES,
    "ENDED": ENDED_STATES,
    "OUTCOMES": OUTCOME_STATES,
}
_NUMBERS = {
    **{state.name: str(int(state)) for state in TaskState},
    **{name: ", ".join(str(int(state)) for state in sorted(_SETS[name])) for name in _SETS},
}


def number_states(text: str) -> str:
    """Replace names of states, as Postgres knows numbers; an unknown name is a bug."""
    return _TOKEN.sub(lambda match: _NUMBERS[match[1]], text)
