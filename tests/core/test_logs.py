"""What a log line looks like when the text in it was chosen by somebody else, and how often it comes."""

import logging

import pytest

from gpuwait.logs import Logfmt, Seldom


def line(text):
    record = logging.LogRecord("gpuwait.x", logging.WARNING, "", 0, text, (), None)
    return Logfmt().format(record).split(" msg=", 1)[1]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ("grün und \u201eso\u201c", '"grün und \u201eso\u201c"'),
        ("a\nlevel=error", r'"a\nlevel=error"'),
        ("\x1b[31m", r'"\u001b[31m"'),
        ("\x9b31m", r'"\u009b31m"'),
        ("\u202egpj.exe", r'"\u202egpj.exe"'),
    ],
)
def test_a_line_is_one_line_of_text(text, written):
    """New lines, escapes of both kinds and what turns the direction of text are written out."""
    assert line(text) == written


def test_a_warning_that_clients_can_cause_comes_once_a_minute(caplog):
    """The next one tells how many were left out."""
    now = 0.0
    seldom = Seldom(logging.getLogger("test"), lambda: now)
    for second in (0.0, 1.0, 59.0, 60.0, 61.0):
        now = second
        seldom.warning("wrong password from %s", f"10.0.0.{int(second)}")
    assert [r.getMessage() for r in caplog.records] == [
        "wrong password from 10.0.0.0",
        "wrong password from 10.0.0.60 (and 2 such since the last of these lines)",
    ]
