"""Flags, variables and what is said of wrong ones."""

import subprocess  # noqa: TID251 - the command line is tested as users run it
import sys

import pytest

from gpuwait.collectors import ALL
from gpuwait.config import Config, ConfigError
from gpuwait.flags import Parser, add_collector_flags, add_flags, build, strangers
from gpuwait.listen import parse_address


def config(*arguments, env=None):
    parser = Parser(allow_abbrev=False)
    add_flags(parser, ("path.", "log.", "collector.", "web."))
    add_collector_flags(parser, ALL)
    return build(parser.parse_args(arguments), env or {}, ALL)


def names(c):
    return {x.name for x in c.collectors}


def test_defaults():
    """Without options: the usual paths, port 9410, every default collector."""
    c = config()
    assert (c.path_procfs, c.path_sysfs, c.web_telemetry_path) == ("/proc", "/sys", "/metrics")
    assert c.web_listen_address == (":9410",)
    assert names(c) == {x.name for x in ALL if x.enabled}


def test_places_of_owners():
    """The kubelet's socket, and any number of directories of prolog files."""
    c = config("--path.pod-resources=/s", "--path.gpu-jobs=/a", "--path.gpu-jobs=/b")
    assert (c.path_pod_resources, c.path_gpu_jobs) == ("/s", ("/a", "/b"))
    assert config(env={"GPUWAIT_PATH_GPU_JOBS": "/a /b"}).path_gpu_jobs == ("/a", "/b")


def test_a_flag_wins_over_its_variable():
    """GPUWAIT_* sets what the command line leaves open."""
    env = {"GPUWAIT_PATH_PROCFS": "/a", "GPUWAIT_LOG_LEVEL": "debug", "GPUWAIT_COLLECTOR_VMSTAT": "false"}
    c = config("--path.procfs=/b", env=env)
    assert (c.path_procfs, c.log_level) == ("/b", "debug")
    assert "vmstat" not in names(c)


def test_collectors_are_chosen_by_flags():
    """--no-collector takes one out; --collector survives --collector.disable-defaults."""
    assert "vmstat" not in names(config("--no-collector.vmstat"))
    assert names(config("--collector.disable-defaults", "--collector.vmstat")) == {"vmstat"}
    assert names(config(env={"GPUWAIT_COLLECTOR_DISABLE_DEFAULTS": "true"})) == set()


def test_listen_addresses_repeat():
    """Several addresses, by flag or in one variable."""
    assert config("--web.listen-address=:1", "--web.listen-address=[::1]:2").web_listen_address == (
        ":1",
        "[::1]:2",
    )
    assert config(env={"GPUWAIT_WEB_LISTEN_ADDRESS": ":1 [::1]:2"}).web_listen_address == (":1", "[::1]:2")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [(":9410", "", 9410), ("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:80", "::1", 80), ("h:1", "h", 1)],
)
def test_addresses(text, host, port):
    """The forms that exporters take."""
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize("text", ["", "9410", "::1:80", "h:", "h:x", "h:65536", "h:-1"])
def test_wrong_addresses(text):
    """What is no address is refused."""
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--no-such-flag"], "--no-such-flag"),
        (["--collector.nonsense"], "--collector.nonsense"),
        (["--collector.disk.device-include=("], "--collector.disk.device-include"),
        (["--web.listen-address=x"], "HOST:PORT"),
        (["--web.max-requests=0"], "--web.max-requests"),
        (["--web.telemetry-path=metrics"], "--web.telemetry-path"),
        (["--collector.timeout=-1"], "--collector.timeout"),
        (["--log.level=loud"], "--log.level"),
    ],
)
def test_wrong_options_name_themselves(arguments, said):
    """The message names the flag."""
    with pytest.raises(ConfigError, match=said.replace("-", r"\-").replace("[", r"\[")) as caught:
        config(*arguments)
    assert "\n" not in str(caught.value)


def test_a_wrong_variable_names_itself():
    """The message names the variable, not the flag that was not given."""
    with pytest.raises(ConfigError, match="GPUWAIT_COLLECTOR_VMSTAT"):
        config(env={"GPUWAIT_COLLECTOR_VMSTAT": "perhaps"})


def test_variables_that_are_no_options():
    """A misspelt variable is told; those that Kubernetes makes of a service of our name are not."""
    env = {
        "GPUWAIT_LOG_LEVL": "debug",
        "GPUWAIT_LOG_LEVEL": "debug",
        "GPUWAIT_COLLECTOR_NFS": "false",
        "GPUWAIT_SERVICE_HOST": "10.0.0.1",
        "GPUWAIT_SERVICE_PORT_METRICS": "9410",
        "GPUWAIT_PORT": "tcp://10.0.0.1:9410",
        "GPUWAIT_PORT_9410_TCP_ADDR": "10.0.0.1",
        "HOME": "/root",
    }
    assert strangers(env, ALL) == ["GPUWAIT_LOG_LEVL"]


def test_missing_path(tmp_path):
    """A path that is not there is said with its flag."""
    with pytest.raises(ConfigError, match=r"--path\.procfs: .*No such file"):
        Config(path_procfs=str(tmp_path / "gone")).host()


def test_include_and_exclude_exclude_each_other():
    """Both patterns at once are an error; the default exclusion gives way to an inclusion."""
    assert config("--collector.disk.device-include=sda").collector_options().disk_devices("sda")
    with pytest.raises(ConfigError, match=r"collector\.disk\.device-include and -exclude"):
        config(
            "--collector.disk.device-include=sda", "--collector.disk.device-exclude=sdb"
        ).collector_options()


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--no-such-flag"],
        ["serve", "--path.sysfs=/nonexistent"],
        ["once", "--collector.disk.device-exclude=["],
        ["nonsense"],
        [],
        ["whois", "abc"],
    ],
)
def test_one_line_and_status_2(arguments):
    """A wrong command line costs one line on standard error and status 2, no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuwait", *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 2
    assert done.stderr.startswith("gpuwait: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
