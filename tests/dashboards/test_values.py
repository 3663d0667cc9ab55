"""What panels show for series that are written down here: two clusters with nodes and jobs of one name."""

import json
import re
import shutil
import subprocess  # noqa: TID251 - promtool is a program
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}
CHOSEN = {"cluster": ".*", "node": "gpu-01", "gpu": ".*", "kind": "pod", "namespace": "team-a"}
CHOSEN["workload"] = "train"


def query(uid, title, ref="A", **chosen):
    """The query of a panel, with these variables."""
    (text,) = (
        target["expr"]
        for panel in PAGES[f"gpuwait-{uid}"]["panels"]
        for target in panel.get("targets", ())
        if (panel["title"], target["refId"]) == (title, ref)
    )
    text = text.replace("$__rate_interval", "4m")
    return re.sub(r"\$([a-z]\w*)", lambda m: (CHOSEN | chosen)[m[1]], text)


@pytest.fixture
def shows(tmp_path):
    """shows(query, expected, series): the answer after 20 minutes; numbers stand for constant series."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("needs promtool (Debian: prometheus)")

    def run(text, expected, series):
        values = {name: f"{v}x30" if isinstance(v, (int, float)) else v for name, v in series.items()}
        test = {
            "interval": "1m",
            "input_series": [{"series": name, "values": v} for name, v in values.items()],
            "promql_expr_test": [
                {
                    "expr": text,
                    "eval_time": "20m",
                    "exp_samples": [{"labels": k, "value": v} for k, v in expected.items()],
                }
            ],
        }
        path = tmp_path / "test.yaml"
        path.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
        command = [program, "test", "rules", str(path)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


_C1, _C2 = 'cluster="c1", node="gpu-01"', 'cluster="c2", node="gpu-01"'
FREE = 'cluster="c1", node="gpu-02"'
NODES = {
    f"node:gpuwait_lost:gpu_hours_1d{{{_C1}}}": 5,
    f"node:gpuwait_lost:gpu_hours_1d{{{_C2}}}": 3,
    f"node:gpuwait_lost:gpu_hours_1d{{{FREE}}}": 1,
    'node:gpuwait_lost:gpu_hours_1d{node="gpu-01"}': 2,
    f"node:gpuwait_waiting_worst:ratio_rate5m{{{_C1}}}": 0.5,
    f"node:gpuwait_waiting_worst:ratio_rate5m{{{_C2}}}": 0.25,
    f"node:gpuwait_in_use:gpus_rate5m{{{_C1}}}": 8,
    f"node:gpuwait_in_use:gpus_rate5m{{{_C2}}}": 4,
    f'node_state:gpuwait_time:gpus_rate5m{{{FREE}, state="free"}}': 8,
    f'node_cause:gpuwait_waiting_worst:ratio_rate5m{{{_C1}, cause="nfs"}}': 0.5,
    f'node_cause:gpuwait_waiting_worst:ratio_rate5m{{{_C2}, cause="nfs"}}': 0.25,
}


def row(labels, cluster, namespace=""):
    """Labels of a row of a table with its links."""
    return f'{{{labels}, to_cluster="{cluster}"' + (f', to_namespace="{namespace}"}}' if namespace else "}")


@pytest.mark.parametrize(
    ("title", "ref", "expected"),
    [
        (
            "Worst 15 nodes",
            "A",
            {row(_C1, "c1"): 5, row(_C2, "c2"): 3, row(FREE, "c1"): 1, row('node="gpu-01"', "All"): 2},
        ),
        ("Worst 15 nodes", "B", {row(_C1, "c1"): 0.5, row(_C2, "c2"): 0.25}),
        ("Worst 15 nodes", "C", {row(_C1, "c1"): 8, row(_C2, "c2"): 4, row(FREE, "c1"): 0}),
        (
            "Node against cause",
            "A",
            {row(_C1 + ', cause="nfs"', "c1"): 0.5, row(_C2 + ', cause="nfs"', "c2"): 0.25},
        ),
    ],
)
def test_nodes_of_one_name(shows, title, ref, expected):
    """A row for each; a node in nobody's use shows 0; the link of a node without a cluster takes all."""
    shows(query("fleet", title, ref), expected, NODES)


def test_workloads_of_one_name(shows):
    """By cluster, kind, namespace and set; a Slurm job has no namespace, and its link takes any."""
    metric, a = "workload:gpuwait_waiting:gpus_rate5m", 'workload_kind="pod", workload_namespace="team-a"'
    b, slurm = 'workload_kind="pod", workload_namespace="team-b"', 'workload_kind="slurm"'
    series = {
        f'{metric}{{cluster="c1", {a}, workload="train-0"}}': 2,
        f'{metric}{{cluster="c1", {a}, workload="train-1"}}': 1,
        f'{metric}{{cluster="c1", {b}, workload="train-0"}}': 0.5,
        f'{metric}{{cluster="c2", {a}, workload="train-0"}}': 4,
        f'{metric}{{cluster="c1", {slurm}, workload="4711"}}': 0.25,
        f'{metric}{{cluster="c1", {slurm}, workload="well"}}': 0,
    }
    expected = {
        row(f'cluster="c1", {a}, job_set="train"', "c1", "team-a"): 3,
        row(f'cluster="c1", {b}, job_set="train"', "c1", "team-b"): 0.5,
        row(f'cluster="c2", {a}, job_set="train"', "c2", "team-a"): 4,
        row(f'cluster="c1", {slurm}, job_set="4711"', "c1", ".*"): 0.25,
    }
    shows(query("fleet", "Worst 15 workloads"), expected, series)


#: A GPU that was in use and waited until ten minutes ago, and is free now.
OVER = {
    'node:gpuwait_in_use:gpus_rate5m{cluster="c1", node="a"}': "8x10 stale",
    'cluster_cause:gpuwait_waiting:gpus_rate5m{cluster="c1", cause="nfs"}': "3x10 stale",
    'cluster_cause:gpuwait_lost:gpu_hours_1d{cluster="c1", cause="nfs"}': "3x5 stale",
    'cluster_cause:gpuwait_lost:money_1d{cluster="c1", cause="nfs"}': "3x5 stale",
    'ALERTS{cluster="c1", node="a", component="gpu-wait", alertstate="firing"}': "1x10 stale",
    'cluster_state:gpuwait_time:gpus_rate5m{cluster="c1", state="free"}': 8,
    'cluster_state:gpuwait_time:gpu_hours_1d{cluster="c1", state="free"}': 8,
    'gpuwait_gpu_price_per_hour{cluster="c1", node="a", gpu="0"}': 2,
    'ALERTS{alertname="GpuwaitWatchdog", alertstate="firing", severity="none"}': 1,
}
ZERO = [
    *("GPUs in use", "GPUs lost to waiting", "Lost in 24 h", "Money lost in 24 h", "Nodes with an alert"),
]


@pytest.mark.parametrize("title", ZERO)
def test_over_is_0(shows, title):
    """What is over has no series: the number is 0, not the last one."""
    shows(query("fleet", title), {"{}": 0}, OVER)


@pytest.mark.parametrize("title", [*ZERO, "Starved share"])
def test_nothing_measured_is_no_number(shows, title):
    """Nodes whose GPUs nobody can read, no rules: nothing, so that the panel says why."""
    unknown = {'cluster_state:gpuwait_time:gpus_rate5m{cluster="c1", state="unknown"}': 8}
    shows(query("fleet", title), {}, unknown)


def test_24_hours_between_two_evaluations(shows):
    """They are recorded every five minutes: a number is there until the next one is."""
    series = {'cluster_cause:gpuwait_lost:gpu_hours_1d{cluster="c1", cause="nfs"}': "7x14"}
    shows(query("fleet", "Lost in 24 h"), {"{}": 7}, series)


@pytest.mark.parametrize("title", ["Down", "Collectors that fail", "GPU readers that stand still"])
def test_no_exporter_is_no_number(shows, title):
    """Without a single exporter nothing is healthy."""
    shows(query("exporter", title), {}, {"unrelated": 1})


def test_nothing_dropped_is_0(shows):
    """The counter begins with the first sample that is dropped."""
    shows(query("exporter", "Series dropped in 1 h"), {"{}": 0}, {f"gpuwait_build_info{{{_C1}}}": 1})


JOBS = {
    f'workload:gpuwait_{what}:gpus_rate5m{{cluster="{cluster}", workload_kind="{kind}", '
    f'workload_namespace="{space}", workload="train-0"}}': value
    for what, cluster, kind, space, value in (
        ("in_use", "c1", "pod", "team-a", 8),
        ("in_use", "c1", "pod", "team-b", 16),
        ("in_use", "c1", "container", "team-a", 32),
        ("waiting", "c1", "pod", "team-a", 2),
        ("waiting", "c1", "pod", "team-b", 4),
        ("waiting", "c2", "pod", "team-a", 0),
    )
}


@pytest.mark.parametrize(
    ("title", "c1", "c2"), [("GPUs in use", 8, 0), ("GPUs lost to waiting", 2, 0), ("Nodes", 0, 0)]
)
def test_job_is_one_job(shows, title, c1, c2):
    """Not the job of the same name in another namespace or of another kind; a number for each cluster."""
    shows(query("job", title), {'{cluster="c1"}': c1, '{cluster="c2"}': c2}, JOBS)


def test_job_that_holds_nothing_is_no_number(shows):
    """An old or misspelt job."""
    shows(query("job", "GPUs in use", workload="gone"), {}, JOBS)


def test_job_matrix_is_a_share(shows):
    """Eight GPUs that lose 6.25 % each lose 6.25 %, not half a GPU; one that two pods share counts once."""
    owner = 'workload_kind="pod", workload_namespace="team-a"'
    series = {}
    for gpu in range(8):
        labels = f'{_C1}, gpu="{gpu}", uuid="{gpu}"'
        series[f'gpu_cause:gpuwait_waiting:ratio_rate5m{{{labels}, cause="nfs"}}'] = 0.0625
        for pod in ("train-0", "train-1"):
            one = f'{labels}, {owner}, workload="{pod}"'
            series[f"gpu_workload:gpuwait_share:ratio{{{one}}}"] = 0.5
            series[f"gpu_workload:gpuwait_in_use:gpus_rate5m{{{one}}}"] = 0.5
    shows(query("job", "Cause by node"), {row(_C1 + ', cause="nfs"', "c1"): 0.0625}, series)


def test_throttling_is_of_one_container(shows):
    """A container that is always stopped shows, however many periods another has."""
    owner = f'{_C1}, workload_kind="pod", workload_namespace="team-a", workload="train-0"'
    series = {
        f'gpuwait_cgroup_cpu_{kind}_total{{{owner}, workload_container="{name}"}}': growth
        for name, kind, growth in (
            ("small", "throttled_periods", "0+60x30"),
            ("small", "periods", "0+60x30"),
            ("large", "throttled_periods", "0+0x30"),
            ("large", "periods", "0+600x30"),
        )
    }
    shows(query("job", "CPU throttling: periods"), {f'{{{_C1}, workload="train-0"}}': 1}, series)


@pytest.mark.parametrize(
    ("ref", "metric", "value"),
    [
        ("C", "gpuwait_cgroup_cpu_usage_seconds_total", "0+120x30"),
        ("D", "gpuwait_cgroup_cpu_quota_cores", 2),
        ("E", "gpuwait_cgroup_memory_usage_bytes", 2),
        ("F", "gpuwait_cgroup_memory_limit_bytes", 2),
    ],
)
def test_workloads_hold_gpus(shows, ref, metric, value):
    """Of all cgroups of a node only those of workloads that hold a GPU, of the same cluster."""
    train = 'workload_kind="pod", workload_namespace="team-a", workload="train-0"'
    series = {
        f'gpuwait_gpu_workload_info{{{_C1}, gpu="0", uuid="u", {train}}}': 1,
        f"{metric}{{{_C1}, {train}}}": value,
        f"{metric}{{{_C2}, {train}}}": value,
        f'{metric}{{{_C1}, workload_kind="service", workload="sshd.service"}}': value,
    }
    shows(query("node", "Workloads", ref), {row(f'cluster="c1", {train}', "c1", "team-a"): 2}, series)


@pytest.mark.parametrize(
    ("uid", "title"), [("fleet", "Firing alerts"), ("node", "Firing alerts of this node")]
)
def test_firing_alerts_by_rank(shows, uid, title):
    """Critical 3, warning 2, info 1; no heartbeat; a row for each cluster."""
    of = 'alertstate="firing", component="gpu-wait"'
    series = {
        f'ALERTS{{{_C1}, alertname="A", severity="critical", {of}}}': 1,
        f'ALERTS{{{_C1}, alertname="B", severity="warning", {of}}}': 1,
        f'ALERTS{{{_C2}, alertname="B", severity="info", {of}}}': 1,
        f'ALERTS{{{_C1}, alertname="W", severity="none", {of}}}': 1,
        f'ALERTS{{{_C1}, alertname="P", severity="critical", alertstate="pending", component="gpu-wait"}}': 1,
    }
    node = ', node="gpu-01"' if uid == "fleet" else ""
    expected = {
        row(f'alertname="{name}", cluster="{cluster}"{node}', cluster, ".*"): rank
        for cluster, name, rank in (("c1", "A", 3), ("c1", "B", 2), ("c2", "B", 1))
    }
    shows(query(uid, title), expected, series)
