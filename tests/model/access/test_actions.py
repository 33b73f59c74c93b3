"""What people do has a word, and what they do it to."""

from holdfast.model.access.actions import ACTION_KINDS, SUBJECT_KINDS


def test_words_are_plain_and_different() -> None:
    for words in (ACTION_KINDS, SUBJECT_KINDS):
        assert len(set(words)) == len(words)
        assert all(word.replace("_", "").isalpha() and word.islower() for word in words)
