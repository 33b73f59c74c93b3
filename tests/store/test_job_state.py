"""The rule of a job's state, as the database has it, is that of `holdfast.rules.job_state`."""

from itertools import product

from holdfast.rules.job_state import JobCounts, job_state
from tests.store.raw import Raw

# Two of each state, since one failure may be tolerated and two not; more of a kind decide nothing.
_TWICE = ("failed", "dead_lettered")
_RANGES = [range(3 if name in _TWICE else 2) for name in JobCounts._fields[:10]]
_COUNTS = [counts for counts in product(*_RANGES) if 0 < sum(counts) <= 4]
_TERMS = list(product((False, True), (None, 0, 1), (None, "soft", "hard"), (False, True)))
_QUERY = """
select array_agg(holdfast.job_state(
           c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11], $2, $3, $4, $5)
           order by n)
  from (select n, array(select jsonb_array_elements_text(counts)::int) as c
          from jsonb_array_elements($1::jsonb) with ordinality as given(counts, n)) as read
"""


async def test_the_database_derives_the_same_state_from_all_small_counts(raw: Raw) -> None:
    all_counts = [
        JobCounts._make((*counts, timed_out))
        for counts in _COUNTS
        for timed_out in range(counts[6] + 1)
    ]
    text = str([list(counts) for counts in all_counts])
    assert len(all_counts) > 500
    for fan_out, tolerated, cancel, has_started in _TERMS:
        found = await raw.value(_QUERY, text, fan_out, tolerated, cancel, has_started)
        wanted = [
            job_state(
                counts,
                fan_out=fan_out,
                max_task_failures=tolerated,
                cancel=cancel,  # type: ignore[arg-type]
                has_started=has_started,
            )
            for counts in all_counts
        ]
        differing = [
            (counts, this, that)
            for counts, this, that in zip(all_counts, found, wanted, strict=True)
            if this != that
        ]
        assert differing == [], (fan_out, tolerated, cancel, has_started)
