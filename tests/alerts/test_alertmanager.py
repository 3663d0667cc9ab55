"""The example for Alertmanager: every alert goes where it should, and better alerts mute others."""

import json
import re
import shutil
import subprocess  # noqa: TID251 - amtool and amlint are programs
import sys
from pathlib import Path

import paging
import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "alerts" / "alertmanager"
CONFIG = FOLDER / "alertmanager.yml"
CASES = yaml.safe_load((FOLDER / "tests.yml").read_text())["tests"]
RULES = [
    rule
    for path in sorted((FOLDER.parent / "rules").glob("alerts-*.yaml"))
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]

#: Where alerts go; every other one is a ticket.
ELSEWHERE = {
    "pager": "GPUWaitingFleet GPULost GPUMissing",
    "deadman": "GpuwaitWatchdog",
    "digest": "GPUWaitingUnexplained GPUWaitingOnRemoteNUMA GPUHeldButIdle GPUNodeHugePagesRisky "
    "GPUNodeNUMABalancing GpuwaitSeriesDropped GpuwaitOverBudget GpuwaitScrapeSlow",
}
RECEIVERS = {name: receiver for receiver, names in ELSEWHERE.items() for name in names.split()}


def run(*command):
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def amlint():
    program = shutil.which("amlint") or Path(sys.executable).with_name("amlint")
    if not Path(program).exists():
        pytest.skip("needs amlint")
    return program


@pytest.fixture
def amtool():
    return paging.program("amtool", "prometheus-alertmanager")


def test_amlint_finds_nothing(amlint):
    """Not even a remark."""
    code, text = run(amlint, "check", "--strict", "--format=json", CONFIG)
    assert (code, json.loads(text)) == (0, [])


def test_routes_and_rules_know_each_other(amlint):
    """Routes and inhibition name alerts that the rules have, but for those of a node, which are a site's."""
    rules = FOLDER.parent / "rules" / "*.yaml"
    _, text = run(amlint, "check", "--format=json", "--rules", rules, CONFIG)
    named = set(re.findall(r"matches alertname '(\w+)'", text))
    codes = set(re.findall(r'"code": "([a-z-]+)"', text))
    assert named == {"NodeDown", "KubeNodeNotReady", "KubeNodeUnreachable"}
    assert codes == {"inhibit-unknown-alertname"}


def test_the_cases_of_routing_hold(amlint):
    """Those that a site runs, and they reach every route."""
    code, text = run(amlint, "test", CONFIG, FOLDER / "tests.yml", "--coverage", "--fail-under", 100)
    assert code == 0, text


def test_no_secret_stands_in_the_file():
    """Keys and the chat's address come from files."""
    text = CONFIG.read_text()
    assert (
        re.findall(r"^\s*(?:routing_key|service_key|api_url|smtp_auth_password|api_key):", text, re.M) == []
    )
    assert set(re.findall(r"_file: (/\S+/)", text)) == {"/etc/alertmanager/secrets/"}


def test_every_rule_that_compares_nodes_asks_for_one():
    """A label that is on neither side counts as equal, and would mute the whole cluster."""
    for rule in yaml.safe_load(CONFIG.read_text())["inhibit_rules"]:
        for side in ("source_matchers", "target_matchers"):
            assert ('node=~".+"' in rule[side]) == ("node" in rule["equal"]), rule


@pytest.mark.e2e
def test_amtool_accepts_what_is_shipped(amtool):
    """Configuration and templates, as they are."""
    code, text = run(amtool, "check-config", CONFIG)
    assert code == 0, text
    assert "1 templates" in text


@pytest.mark.e2e
def test_every_alert_ends_at_its_receiver(amtool):
    """By name and severity; none at the one for what is not gpuwait's."""
    assert len({rule["alert"] for rule in RULES}) > 35
    assert set(RECEIVERS) <= {rule["alert"] for rule in RULES}
    for rule in RULES:
        name = rule["alert"]
        labels = {"alertname": name, "cluster": "a", "node": "n1"} | rule["labels"]
        code, text = run(
            amtool,
            *("config", "routes", "test", f"--config.file={CONFIG}"),
            f"--verify.receivers={RECEIVERS.get(name, 'chat-and-ticket')}",
            *(f"{key}={value}" for key, value in labels.items()),
        )
        assert code == 0, (name, text)


def test_only_three_alerts_wake_somebody():
    """The pager gets what is critical, and nothing else is."""
    critical = {rule["alert"] for rule in RULES if rule["labels"]["severity"] == "critical"}
    assert critical == {"GPUWaitingFleet", "GPULost", "GPUMissing"}


def apart(labels, number):
    """The same labels in a cluster of their own, so that cases do not meet."""
    return labels | {"cluster": f"{labels['cluster']}-{number}"} if "cluster" in labels else labels


@pytest.mark.e2e
def test_the_real_alertmanager_agrees(tmp_path, stack):
    """Each case of tests.yml once more: its receiver, and whether it is suppressed."""
    receiver = paging.Receiver(stack)
    alertmanager = paging.Alertmanager(stack, tmp_path, paging.webhooks(paging.short_routes(), receiver.url))
    cases = [
        (case, apart(case["labels"], i), [apart(one, i) for one in case.get("firing", [])])
        for i, case in enumerate(CASES)
    ]
    alertmanager.post([{"labels": one} for _, _, firing in cases for one in firing])
    alertmanager.post([{"labels": labels} for _, labels, _ in cases])
    found = {tuple(sorted(alert["labels"].items())): alert for alert in alertmanager.alerts()}
    assert len(cases) > 30
    for case, labels, _ in cases:
        alert = found[tuple(sorted(labels.items()))]
        assert (case["name"], alert["status"]["state"]) == (
            case["name"],
            "suppressed" if case.get("inhibited") else "active",
        )
        if "receiver" in case:
            assert [one["name"] for one in alert["receivers"]] == [case["receiver"]], case["name"]
