"""Files of the door that are none, or that do not answer: one line, never a daemon that waits for ever."""

import os
import subprocess  # noqa: TID251 - the refusal is seen as users see it
import sys
import threading
import time

import pytest

from gpuwait import web_files
from gpuwait.strict_yaml import FileError
from gpuwait.web_door import Door

TLS = "tls_server_config:\n  cert_file: {0}/server.crt\n  key_file: {0}/server.key\n"


def refusal(path):
    """Status and what is said of a start with this file; 15 seconds at most."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuwait", "serve", "--no-collector.gpu", "--web.listen-address=127.0.0.1:0",
         f"--web.config.file={path}"],
        capture_output=True, text=True, timeout=15, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
@pytest.mark.parametrize("name", ["web.yml", "server.crt", "server.key"])
def test_what_is_no_file_refuses_the_start(certificates, kind, name):
    """A named pipe, a device without end and a directory, as configuration, certificate or key."""
    (certificates / "web.yml").write_text(TLS.format(certificates))
    (certificates / name).unlink()
    if kind == "pipe":
        os.mkfifo(certificates / name)
    elif kind == "device":
        (certificates / name).symlink_to("/dev/zero")
    else:
        (certificates / name).mkdir()
    status, line = refusal(certificates / "web.yml")
    key = {"server.crt": "tls_server_config.cert_file: ", "server.key": "tls_server_config.key_file: "}
    where = f"{certificates}/web.yml: {key[name]}" if name in key else ""
    assert (status, line) == (
        2,
        f"gpuwait: --web.config.file: {where}{certificates}/{name}: not an ordinary file\n",
    )


def test_a_file_beyond_all_measure_is_refused(tmp_path):
    """One MiB is read and no more."""
    (tmp_path / "web.yml").write_text("#" * (1024 * 1024 + 1))
    with pytest.raises(FileError, match=r"web\.yml: is larger than 1 MiB$"):
        Door(str(tmp_path / "web.yml"))


def test_a_secret_of_kubernetes_is_followed(start, certificates):
    """Its files are links by way of ..data, which is put in place of another at once."""
    for version, name in (("v1", "server"), ("v2", "second")):
        (certificates / version).mkdir()
        (certificates / version / "web.yml").write_text(TLS.format(certificates / "now"))
        for kind in ("crt", "key"):
            text = (certificates / f"{name}.{kind}").read_text()
            (certificates / version / f"server.{kind}").write_text(text)
    (certificates / "now").mkdir()
    (certificates / "now/..data").symlink_to("../v1")
    for name in ("web.yml", "server.crt", "server.key"):
        (certificates / "now" / name).symlink_to(f"..data/{name}")
    daemon = start(f"--web.config.file={certificates}/now/web.yml", trust=certificates)
    (certificates / "now/..new").symlink_to("../v2")
    (certificates / "now/..new").rename(certificates / "now/..data")
    daemon.lines("the new configuration is in force")
    assert daemon.get("/-/healthy")[0] == 200


@pytest.mark.parametrize("name", ["web.yml", "server.key"])
def test_a_pipe_in_place_of_a_file_costs_one_line(start, certificates, name):
    """While it is there the metric says so; a file in its place is taken up again."""
    (certificates / "web.yml").write_text(TLS.format(certificates))
    daemon = start(f"--web.config.file={certificates}/web.yml", trust=certificates)
    assert b"\ngpuwait_web_config_reload_success 1\n" in daemon.get()[2]
    (certificates / name).unlink()
    os.mkfifo(certificates / name)
    daemon.lines("not an ordinary file; the last good configuration stays in force")
    time.sleep(2.5)
    for accept in ("text/plain", "application/openmetrics-text"):
        assert b"\ngpuwait_web_config_reload_success 0" in daemon.get(headers={"Accept": accept})[2]
    (certificates / name).unlink()
    if name == "web.yml":
        (certificates / name).write_text(TLS.format(certificates) + "  min_version: TLS13\n")
    else:
        (certificates / "server.crt").write_text((certificates / "second.crt").read_text())
        (certificates / name).write_text((certificates / "second.key").read_text())
    daemon.lines("the new configuration is in force")
    assert b"\ngpuwait_web_config_reload_success 1\n" in daemon.get()[2]
    assert len(daemon.lines("not an ordinary file")) == 1


def test_without_the_flag_there_is_no_such_metric(start):
    """A node that asks for no door has nothing to reload."""
    assert b"gpuwait_web_config" not in start().get()[2]


class Hanging:
    """Reads files like the door's own reader, until it is told to hang at one."""

    def __init__(self, read):
        self.read, self.at, self.go, self.hangs = read, "", threading.Event(), threading.Event()

    def __call__(self, path, limit):
        if self.at and path.endswith(self.at):
            self.hangs.set()
            self.go.wait(20)
        return self.read(path, limit)


@pytest.fixture
def hanging(monkeypatch):
    """The reader of the door's files, which can be made to hang."""
    found = Hanging(web_files.read_ordinary)
    monkeypatch.setattr(web_files, "read_ordinary", found)
    yield found
    found.go.set()


def test_a_file_that_does_not_answer_refuses_the_start(certificates, hanging, monkeypatch):
    """One line that names the file, after a few seconds."""
    monkeypatch.setattr(web_files, "HUNG", 0.3)
    path = certificates / "web.yml"
    path.write_text(TLS.format(certificates))
    hanging.at = "server.key"
    begin = time.monotonic()
    with pytest.raises(FileError) as found:
        Door(str(path))
    assert time.monotonic() - begin < 5
    assert str(found.value) == (
        f"{path}: tls_server_config.key_file: {certificates}/server.key: has not answered for 0 s"
    )


def test_a_look_that_hangs_is_told_once(certificates, hanging, caplog):
    """After ten seconds the log says it once and the door is no longer called good; then it is well again."""
    now = 100.0
    path = certificates / "web.yml"
    path.write_text(TLS.format(certificates))
    door = Door(str(path), clock=lambda: now)
    caplog.clear()
    assert door.good
    hanging.at = "server.crt"
    look = threading.Thread(target=door.look_again)
    look.start()
    assert hanging.hangs.wait(5)
    now = 109.0
    door.mind()
    assert (door.good, len(caplog.records)) == (True, 0)
    now = 111.0
    for _ in range(3):
        door.mind()
    assert not door.good
    where = f"{path}: tls_server_config.cert_file: {certificates}/server.crt"
    assert [r.getMessage() for r in caplog.records] == [
        f"--web.config.file: {where}: has not answered for 11 s; the last good configuration stays in force"
    ]
    hanging.go.set()
    look.join(5)
    door.mind()
    assert door.good


def test_a_daemon_says_that_a_file_hangs(start, certificates, tmp_path):
    """The real program, with a reader that hangs: scrapes go on, and log and metric say so."""
    code = (
        "import time\nfrom gpuwait import host\nread, looks = host.read_ordinary, []\n"
        "def hang(path, limit):\n"
        "    looks.append(path)\n"
        "    if len(looks) > 4: time.sleep(60)\n"
        "    return read(path, limit)\n"
        "host.read_ordinary = hang\n"
    )
    (tmp_path / "sitecustomize.py").write_text(code)
    (certificates / "web.yml").write_text(TLS.format(certificates))
    flag = f"--web.config.file={certificates}/web.yml"
    daemon = start(flag, trust=certificates, env={"PYTHONPATH": str(tmp_path)})
    daemon.lines("has not answered for 1", seconds=25)
    assert b"\ngpuwait_web_config_reload_success 0\n" in daemon.get()[2]
    assert daemon.get("/-/healthy")[0] == 200
    assert daemon.end() == 0
