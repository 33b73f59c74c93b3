"""Workers on which a task nearly fits, as people read them."""

from holdfast.model.workers.near_misses import Lack, NearMiss


def test_a_near_miss_is_written_with_all_it_lacks() -> None:
    lacks = [Lack("lacks_resources", "no gpu (needs 1)"), Lack("reserved", "kept for job 7")]
    assert str(NearMiss("id-1", "a", lacks)) == "worker a: no gpu (needs 1), kept for job 7"
