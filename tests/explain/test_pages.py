"""The handlers that the web server calls."""

import json

from gpuwait.collector import Collector
from gpuwait.explain import Recent
from gpuwait.gather import Outcome
from gpuwait.metrics import Family
from gpuwait.pages import Pages

FAMILY = Family("gpuwait_x", "gauge", "X.", "test")


def collector(name):
    return Collector(name, "X.", (FAMILY,), lambda _: ())


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def pages(incident, **options):
    verdicts, latest, _ = incident
    recent = Recent()
    for verdict in verdicts:
        recent.add(verdict, latest)
    return Pages(recent, lambda: verdicts, options.pop("gather", list), **options)


def test_verdict_in_three_formats(incident):
    """JSON by default, text and Markdown for who asks."""
    found = pages(incident).routes()["/api/v1/verdict"]
    status, kind, body = found({})
    assert (status, kind) == ("200 OK", "application/json")
    assert json.loads(body)["explanations"][0]["cause"] == "compaction"
    assert found({"QUERY_STRING": "format=text"})[2].startswith(b"GPU 0-7 waited 62 %")
    assert found({"QUERY_STRING": "format=markdown"})[2].startswith(b"# GPU 0-7")
    assert found({"QUERY_STRING": "format=x&&=%ff"})[1] == "application/json"


def test_page(incident):
    """HTML that refreshes, or stands still."""
    page = pages(incident, simulated="s").routes()["/"]
    status, kind, body = page({"QUERY_STRING": ""})
    assert (status, kind) == ("200 OK", "text/html; charset=utf-8")
    assert b'http-equiv="refresh"' in body
    assert b"Simulated" in body
    assert b'http-equiv="refresh"' not in page({"QUERY_STRING": "refresh=off"})[2]


def test_sources_are_asked_once_in_a_while(incident):
    """Many visitors cost one gathering in 15 s; a busy gatherer costs none and no error."""
    calls, clock = [], Clock()

    def gather():
        calls.append(1)
        if len(calls) == 3:
            raise TimeoutError
        fails = Outcome(collector("bad"), success=False, detail="broken")
        part = Outcome(collector("part"), {FAMILY: {(): 1}}, reason="absent")
        return [fails, part, Outcome(collector("none"), {}, reason="absent"), Outcome(collector("good"), {})]

    found = pages(incident, gather=gather, clock=clock)
    body = found.page({})[2].decode()
    for name, state in (("bad", "fails"), ("part", "partly"), ("none", "absent"), ("good", "ok")):
        assert f'collect[]={name}">{name}</a></td><td class="s-{state}">' in body
    found.page({})
    assert len(calls) == 1
    clock.now = 16.0
    found.page({})
    clock.now = 32.0
    assert "broken" in found.page({})[2].decode()
    assert len(calls) == 3


def test_a_report_is_made_once_for_each_tick(incident):
    """Asking twice within a tick gives the same object."""
    found = pages(incident)
    assert found.report() is found.report()
