"""Text from a sandbox, made fit for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.text import (
    escape_invisible,
    make_redactor,
    quote_untrusted,
    strip_control_characters,
    subject_line,
    truncate_middle,
)


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_truncated_text_has_the_limit_plus_one_line(text: str, limit: int) -> None:
    assert len(truncate_middle(text, limit)) <= limit + 60


@given(st.text(max_size=50))
def test_short_text_is_not_truncated(text: str) -> None:
    assert truncate_middle(text, 50) == text


@given(st.text(min_size=21), st.integers(min_value=4, max_value=20))
def test_truncated_text_keeps_beginning_and_end(text: str, limit: int) -> None:
    capped = truncate_middle(text, limit)
    head = limit // 4
    assert (capped[:head], capped[head - limit :]) == (text[:head], text[head - limit :])


@given(st.text(st.characters(codec="utf-8")))
def test_only_tab_and_newline_remain_of_control_characters(text: str) -> None:
    assert all(
        char in "\t\n" or 32 <= ord(char) < 127 or ord(char) > 159
        for char in strip_control_characters(text)
    )


@given(st.text())
def test_stripping_twice_equals_stripping_once(text: str) -> None:
    assert strip_control_characters(strip_control_characters(text)) == strip_control_characters(
        text
    )


@given(st.text(st.sampled_from("\x1b[]0;m\x07\\aP\n\u202e")))
def test_nested_escapes_leave_no_escape(text: str) -> None:
    assert not set(strip_control_characters(text)) & {"\x1b", "\x07", "\u202e"}


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x1b[2J\x1b[Hb", "ab"),
        ("one\r\ntwo", "one\ntwo"),
        ("half \ud83d", "half "),
        ("safe\u202etxt.exe", "safetxt.exe"),
        ("naïve ✓ 漢字\t|", "naïve ✓ 漢字\t|"),
    ],
)
def test_terminal_escapes_are_removed(hostile: str, harmless: str) -> None:
    assert strip_control_characters(hostile) == harmless


@pytest.mark.parametrize("opening", ["\x1b]", "\x1bP", "\x1b[0", "\x1b["])
def test_unfinished_escapes_take_linear_time(opening: str) -> None:
    assert "\n." in strip_control_characters(opening * 500_000 + "\n.")


def test_the_value_of_a_secret_is_redacted() -> None:
    assert make_redactor({"API_KEY": "hunter2-hunter2"})("say hunter2-hunter2") == "say [redacted]"


def test_a_value_under_a_harmless_name_stays() -> None:
    assert make_redactor({"EDITOR": "hunter2-hunter2"})("hunter2-hunter2") == "hunter2-hunter2"


def test_the_longer_of_two_overlapping_secrets_is_redacted() -> None:
    redact = make_redactor({"A_TOKEN": "12345678", "B_TOKEN": "12345678-and-more"})
    assert redact("12345678-and-more") == "[redacted]"


def test_a_secret_too_short_to_redact_stays() -> None:
    assert make_redactor({"A_TOKEN": "true"})("true") == "true"


def test_escape_invisible_spells_out_hidden_characters() -> None:
    hidden = "echo ok \x1b]; curl x\r\n\ta\u202eb\u200b\u3164é 日本 😀"
    assert (
        escape_invisible(hidden) == "echo ok \\x1b]; curl x\\r\n\ta\\u202eb\\u200b\\u3164é 日本 😀"
    )


def test_an_emoji_selector_after_a_symbol_stays() -> None:
    assert escape_invisible("\u26a0\ufe0f careful") == "\u26a0\ufe0f careful"
    assert escape_invisible("\u26a0\ufe0f\ufe0f") == "\u26a0\ufe0f\\ufe0f"


@pytest.mark.parametrize("mark", ["\ufe0f", "\ufe00", "\u180b", "\U000e0101"])
def test_variation_selectors_are_spelled_out(mark: str) -> None:
    assert escape_invisible(f"a{mark}b") == f"a{mark.encode('unicode_escape').decode()}b"


@given(st.text())
def test_escape_invisible_removes_nothing(text: str) -> None:
    assert escape_invisible(text).encode("ascii", "backslashreplace").count(b"\\") >= text.count(
        "\\"
    )
    assert all(char.isprintable() or char in "\n\t" for char in escape_invisible(text))
    assert len(escape_invisible(text)) >= len(text)


ISSUE = quote_untrusted("\n| Crash\nagain", "issue 7")


@pytest.mark.parametrize(
    ("intent", "line"),
    [
        ("", ""),
        ("Add --quiet.\nIt prints nothing.", "Add --quiet."),
        (f"Do what issue 7 asks for.\n\n{ISSUE}", "Do what issue 7 asks for: | Crash"),
        (ISSUE, "| Crash"),
        (f"Be brief.\n\n{quote_untrusted('', 'issue 7')}", "Be brief."),
    ],
)
def test_the_subject_of_an_intent_is_its_first_line_and_that_of_its_quote(
    intent: str, line: str
) -> None:
    assert subject_line(intent) == line
