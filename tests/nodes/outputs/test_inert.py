"""Text of agents has no power on a forge: what a CommonMark renderer makes of it is looked at."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nodes.outputs.inert import inert_line, inert_markdown, inert_quotes
from nodes.text import quote_untrusted
from tests.support.forge_power import CLOSES, LIVE, power_of

HOSTILE = [
    "@octocat and @team/people, a@example.org",
    "(@octocat) \\@octocat &#64;octocat &commat;octocat @\u200boctocat \uff20octocat",
    "**@**octocat *@octocat* ~~@octocat~~ [@octocat](x) `x`@octocat`y`",
    "``x`` `@a`` @octocat `",
    "fixes #12, Closes: #12, RESOLVED team/app#12, implements GH-12, closing !12",
    "fixes https://github.com/team/app/issues/12 and closes ABC-12",
    "fixes\n#12 fix\u200bes #12 fi\u00adxes #12 fixes &#35;12 fixes \uff0312",
    "`fixes #12`\n\n```\nfixes #12\n```\n\n    closes #12",
    "<img src=https://x.test/a.png><script>alert(1)</script><!-- hidden --><b>@octocat</b>",
    "<details open><summary>x</summary></details> <a href='//x.test'>y</a> &lt;img src=x&gt;",
    "![pixel](https://x.test/p.png) [![x](https://x.test/p)](https://x.test) ![r][1]\n\n[1]: /x",
    "https://x.test www.x.test <https://x.test> <mail@x.test> ftp://x.test [x](https://x.test 't')",
    "[x](javascript:alert) [x]: https://x.test\n\n[x]\n\n[^1]\n\n[^1]: @octocat",
    "/close\n/label ~bug\n  /merge\n> /close\n\n- /close\n\n```\n/lgtm\n```\n\n    /lgtm",
    "```mermaid\ngraph TD\nclick A href 'https://x.test'\n```\n\n```suggestion\nx\n```\n\n~~~plantuml\n~~~",
    "| a | b |\n|---|---|\n| @octocat | `x|@octocat` \\| @octocat |",
    "| `a\\|b` |\n|---|\n| `@o\\|@octocat` ![x](//x) |",
    "text\u2028/close\u2029@octocat\r/close\x0b/close\x0c/close",
    "\u202e@octocat \U000e0040octocat \u2066#12\u2069 \u00a0@octocat",
    "> " * 50 + "@octocat",
    "- " * 50 + "@octocat",
    "[" * 500 + "@octocat" + "](x)" * 500,
    "*" * 500 + "@octocat" + "*" * 500,
    "`" * 7 + "@octocat" + "`" * 6 + " @octocat",
    "1. /close\n2. x\n   ```\n   @octocat\n\n@octocat",
    "a\\\n@octocat  \n#12\\",
    "\x1b[31m@octocat\x1b[0m \x1b]8;;https://x.test\x07link\x1b]8;;\x07",
    "$`@octocat`$ {+ @octocat +} [[_TOC_]] [[https://x.test]]",
    "deadbeef deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_has_no_power(text: str) -> None:
    assert power_of(inert_markdown(text)) == []


@pytest.mark.parametrize("text", [*HOSTILE[:3], *HOSTILE[4:13], HOSTILE[15]])
def test_the_test_above_sees_the_power_that_these_have(text: str) -> None:
    assert power_of(text)


def test_no_picture_is_drawn_and_no_suggestion_offered() -> None:
    assert inert_markdown("```mermaid\nx\n```\n\n```suggestion\ny\n```\n\n~~~python\nz\n~~~") == (
        " ```\n x\n ```\n\n ```\n y\n ```\n\n ```python\n z\n ```"
    )


PIECES = st.sampled_from(
    [
        *("@octocat", "#12", "fixes ", "https://x.test", "www.x.test", "GH-1", "&#64;", "&#35;1"),
        *(
            "`",
            "``",
            "```",
            "~~~",
            "*",
            "**",
            "_",
            "~~",
            "[",
            "](",
            ")",
            "![",
            "<",
            ">",
            "<img ",
            "\\",
        ),
        *(
            "\n",
            "\n\n",
            "    ",
            "- ",
            "1. ",
            "> ",
            "# ",
            "|",
            "\n|-|\n",
            "---",
            "/close",
            " ",
            "x",
            "\t",
        ),
        *("\u200b", "\uff20", "[1]: ", "===", "<!--", "-->", "&amp;", "!", ":", "$"),
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_mixture_of_marks_has_power(text: str) -> None:
    assert power_of(inert_markdown(text)) == []


@given(st.lists(PIECES, max_size=40).map("".join))
def test_what_was_made_inert_stays_inert(text: str) -> None:
    assert power_of(inert_markdown(inert_markdown(text))) == []


def test_ordinary_markdown_looks_as_it_did() -> None:
    text = (
        "# Why\n\nIt **fails** on `main` because *two* things:\n\n- first\n  - inner\n- second\n\n"
        "1. do\n2. this\n\n> quoted\n\n```python\n@fixture\ndef x(): ...\n```\n\n"
        "| a | b |\n|---|---|\n| 1 | `x` |\n"
    )
    renderer = MarkdownIt("commonmark").enable("table")
    plain = [re.sub(r"\s|</?p>", "", renderer.render(one)) for one in (text, inert_markdown(text))]
    assert plain[0] == plain[1]


def test_an_address_can_still_be_read_and_copied() -> None:
    assert inert_markdown("See [the log](https://x.test/a_b) and https://x.test.") == (
        "See the log (`https://x.test/a_b`) and `https://x.test`."
    )


def test_a_quote_in_a_commit_message_closes_nothing_and_the_users_own_words_do() -> None:
    intent = f"Fixes #12\n\n{quote_untrusted('fixes #13 @octocat', 'issue 14')}"
    said = inert_quotes(intent).splitlines()
    assert said[0] == "Fixes #12"
    assert said[-1] == "| fixes\u200b #\u200b13 @\u200boctocat"


def test_text_of_twenty_thousand_marks_is_done_at_once() -> None:
    for mark in ("[", "*", "`", "> ", "<", "![", "a@", "fixes ", "|"):
        assert power_of(inert_markdown(mark * (20_000 // len(mark)))) == []


@pytest.mark.parametrize(
    "text", ["fixes #12 @octocat", "see https://x.test\n/close", "GH-12 www.x.test"]
)
def test_a_title_is_one_line_without_power(text: str) -> None:
    line = inert_line(text)
    assert "\n" not in line
    assert not LIVE.search(line)
    assert not CLOSES.search(line)
