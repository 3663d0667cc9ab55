"""Settings: one word of several, one number, one word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.settings import Choice, parse_choice, parse_number, parse_word


def test_chosen_word():
    """The word in brackets is the one in force."""
    assert parse_choice("always defer defer+madvise [madvise] never\n") == Choice(
        ("always", "defer", "defer+madvise", "madvise", "never"), "madvise"
    )


@pytest.mark.parametrize("text", ["", "always never", "[a] [b]", "[]", "[a] " + "b " * 40, "[a] " + "b" * 99])
def test_no_choice(text):
    """None chosen, several chosen, or text of another kind is an error."""
    with pytest.raises(ParseError):
        parse_choice(text)


@pytest.mark.parametrize(("text", "value"), [("500\n", 500), ("0", 0), ("-1\n", -1)])
def test_number(text, value):
    """A number may be negative and end in a line feed."""
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "x", "1 2", "--1", "1.5", "9" * 5000])
def test_no_number(text):
    """Anything but one number is an error."""
    with pytest.raises(ParseError):
        parse_number(text)


def test_word():
    """A governor is one word."""
    assert parse_word("performance\n") == "performance"


@pytest.mark.parametrize("text", ["", "two words", "x" * 33])
def test_no_word(text):
    """Nothing, two words or a very long one is an error."""
    with pytest.raises(ParseError):
        parse_word(text)


@given(st.text() | st.text(alphabet="[] ab\n-12"))
@pytest.mark.parametrize("parse", [parse_choice, parse_number, parse_word])
def test_any_text(parse, text):
    """Nothing but ParseError leaves."""
    try:
        value = parse(text)
    except ParseError:
        return
    if isinstance(value, Choice):
        assert value.words.count(value.chosen) == 1
        assert len(set(value.words)) == len(value.words) <= 16
