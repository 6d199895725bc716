"""The retrieval benchmark's questions are paraphrases: their words are not their answers'."""

from benchmarks.memory.retrieval import PROCEDURES, read
from memory.relevance import tokenize


def test_no_question_shares_two_words_with_its_procedure() -> None:
    contents, cases = read(PROCEDURES)
    for content, case in zip(contents, cases, strict=True):
        shared = set(tokenize(case.question)) & set(tokenize(f"{content.title} {content.use_case}"))
        assert len(shared) <= 1, (case, shared)


def test_there_are_enough_procedures_and_each_has_one_question() -> None:
    contents, cases = read(PROCEDURES)
    assert len({content.title for content in contents}) == len(contents) >= 200
    assert [case.title for case in cases] == [content.title for content in contents]
