"""The rules by promtool: lint, unit tests, and the texts of the alerts."""

import shutil
import subprocess  # noqa: TID251 - promtool is a program
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.e2e

ALERTS = Path(__file__).parents[2] / "alerts"
RULES = sorted((ALERTS / "rules").glob("*.yaml"))
TESTS = sorted((ALERTS / "tests").glob("*.yaml"))


@pytest.fixture
def promtool():
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("needs promtool (Debian: prometheus)")

    def run(*arguments):
        command = [program, *map(str, arguments)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    return run


def test_lint(promtool):
    """promtool finds nothing to complain about."""
    code, text = promtool("check", "rules", "--lint=all", "--lint-fatal", *RULES)
    assert code == 0, text


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_unit_tests(promtool, path):
    """Every case holds."""
    code, text = promtool("test", "rules", path)
    assert code == 0, text


def firing(test):
    """When the alert of the case fires, by its first check with a result."""
    return next(check["eval_time"] for check in test["promql_expr_test"] if check["exp_samples"])


def test_texts_expand(promtool, tmp_path):
    """The texts of every firing alert can be filled in: promtool shows them when told to expect none."""
    names, derived = set(), []
    for path in TESTS:
        for test in yaml.safe_load(path.read_text())["tests"]:
            name, _, what = test["name"].partition(": ")
            if not what.startswith("fires"):
                continue
            names.add(name)
            case = {key: test[key] for key in ("name", "interval", "input_series")}
            expected = [{"eval_time": firing(test), "alertname": name, "exp_alerts": []}]
            derived.append(case | {"alert_rule_test": expected})
    rules = [str(path) for path in RULES]
    whole = {"rule_files": rules, "evaluation_interval": "1m", "tests": derived}
    (tmp_path / "texts.yaml").write_text(yaml.safe_dump(whole))
    _, text = promtool("test", "rules", tmp_path / "texts.yaml")
    shown = {name for name in names if f'alertname="{name}"' in text.split("FAILED", 1)[1]}
    assert names - shown == set()
    assert [bad for bad in ("error expanding", "<nil>", "%!", "NaN", "map[") if bad in text] == []
