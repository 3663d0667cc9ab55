"""Runbooks: one for each alert, whole, and of one mind with `gpuwait explain`."""

import re
from pathlib import Path

import pytest
import yaml

from gpuwait.advice import ADVICE, HIDDEN, IDLE, UNKNOWN, UNOPENED

ALERTS = Path(__file__).parents[2] / "alerts"
SECTIONS = [
    "Meaning",
    "Impact",
    "Confirm in two minutes",
    "Fix now",
    "Fix for good",
    "Verify",
    "When to silence",
]

GROUPS = [
    group
    for path in sorted((ALERTS / "rules").glob("*.yaml"))
    for group in yaml.safe_load(path.read_text())["groups"]
]
RULES = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]
NAMES = sorted({rule["alert"] for rule in RULES})


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_has_a_runbook(name):
    """The page has all sections, in order, none of them empty."""
    text = (ALERTS / "runbooks" / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert all(part.strip() for part in re.split(r"^## .*$", text, flags=re.MULTILINE))


def test_no_runbook_is_left_over():
    """Every page belongs to an alert, but for the index of causes."""
    pages = {path.stem for path in (ALERTS / "runbooks").glob("*.md")}
    assert pages - set(NAMES) == {"GPUWaiting"}


def test_runbooks_link_to_pages_that_are_there():
    """A link leads to a page of this folder."""
    folder = ALERTS / "runbooks"
    links = {link for path in folder.glob("*.md") for link in re.findall(r"\]\((.*?)\)", path.read_text())}
    assert {link for link in links if not (folder / link).is_file()} == set()


def test_advice_points_to_a_page_and_a_section():
    """`gpuwait explain` names a runbook that exists."""
    for advice in (*ADVICE.values(), IDLE, HIDDEN, UNOPENED, UNKNOWN):
        page, _, section = advice.runbook.partition("#")
        text = (ALERTS / "runbooks" / page).read_text()
        assert not section or f"## {section}\n" in text


@pytest.mark.parametrize("cause", ADVICE, ids=str)
def test_runbooks_say_what_explain_says(cause):
    """Each command of the advice on a cause stands in its runbook, with a word in capitals for each hole."""
    page = next((r["alert"] for r in RULES if f'"{cause}"' in r["expr"]), "GPUWaitingUnexplained")
    text = (ALERTS / "runbooks" / f"{page}.md").read_text()
    steps = [*ADVICE[cause].now, *ADVICE[cause].good]
    for command in [step.command for step in steps if step.command] + [ADVICE[cause].verify.command]:
        pattern = re.sub(r"\\{[a-z]+\\}", r"[A-Z_/]+", re.escape(command))
        assert re.search(pattern, text), command
