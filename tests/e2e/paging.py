"""From a rule to a message, for tests: rules and routes with short times, and receivers that remember.

Everything but times and addresses stays as it is shipped.
"""

import contextlib
import http.server
import json
import re
import shutil
import socket
import socketserver
import subprocess  # noqa: TID251 - Prometheus and Alertmanager are programs
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

ALERTS = Path(__file__).resolve().parents[2] / "alerts"

#: All times of rules and routes are this much shorter, by one factor, so that none overtakes another; a demo
#: that runs as much faster keeps its rhythm.
FACTOR = 30
#: But for what is held for two hours: half an hour is enough to see, and a busy machine disturbs less.
SHORTER = {"2h": "30m"}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def brief(duration):
    """A duration in short."""
    duration = SHORTER.get(duration, duration)
    return f"{int(duration[:-1]) * SECONDS[duration[-1]] * 1000 // FACTOR}ms"


def short(expression, speed=FACTOR):
    """An expression or a text of queries with short windows, where clocks run `speed` times as fast."""
    expression = re.sub(r"\brate\(([^()]*\[\d+[mhd]\][^()]*)\)", rf"(rate(\1) / {speed})", expression)
    expression = re.sub(r"\[(\d+[mhd])\]", lambda m: f"[{brief(m[1])}]", expression)
    return re.sub(r"\boffset (\d+[mhd])", lambda m: f"offset {brief(m[1])}", expression)


def short_rules(folder, speed=FACTOR):
    """Write the shipped rules with short times; the glob of the files."""
    for path in (ALERTS / "rules").glob("*.yaml"):
        whole = yaml.safe_load(path.read_text())
        for group in whole["groups"]:
            group["interval"] = brief(group["interval"])
            for rule in group["rules"]:
                rule["expr"] = short(rule["expr"], speed)
                for name in {"for", "keep_firing_for"} & rule.keys():
                    rule[name] = brief(rule[name])
                for name, text in rule.get("annotations", {}).items():
                    rule["annotations"][name] = short(text, speed)
        (folder / path.name).write_text(yaml.safe_dump(whole, sort_keys=False))
    return f"{folder}/*.yaml"


def short_routes():
    """The shipped configuration with short times."""
    config = yaml.safe_load((ALERTS / "alertmanager" / "alertmanager.yml").read_text())
    pending = [config["route"]]
    for route in pending:
        pending += route.get("routes", [])
        for name in {"group_wait", "group_interval", "repeat_interval"} & route.keys():
            route[name] = brief(route[name])
    for interval in config["time_intervals"]:
        interval["time_intervals"] = [{"times": [{"start_time": "00:00", "end_time": "24:00"}]}]
    config["templates"] = [str(ALERTS / "alertmanager" / "templates" / "*.tmpl")]
    return config


def webhooks(config, url):
    """A configuration whose receivers are webhooks at `url`/NAME."""
    for receiver in config["receivers"]:
        targets = [target for kind in list(receiver) if kind != "name" for target in receiver.pop(kind)]
        resolved = all(target.get("send_resolved", True) for target in targets)
        receiver["webhook_configs"] = [{"url": f"{url}/{receiver['name']}", "send_resolved": resolved}]
    return config


def real_receivers(config, url, mail, folder):
    """A configuration whose services are here: chat, pager and webhooks at `url`, and a mail server."""
    (folder / "chat").write_text(f"{url}/chat")
    (folder / "key").write_text("a-key")
    config["global"]["smtp_smarthost"] = mail
    for receiver in config["receivers"]:
        for target in receiver.get("slack_configs", ()):
            target["api_url_file"] = f"{folder}/chat"
        for target in receiver.get("pagerduty_configs", ()):
            target |= {"url": f"{url}/pagerduty", "routing_key_file": f"{folder}/key"}
        for target in receiver.get("webhook_configs", ()):
            target["url"] = f"{url}/{receiver['name']}"
    return config


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def fetch(url, body=None):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def until(seconds, question, what="an answer"):
    """What `question` answers once that is true; fails after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, urllib.error.URLError):
            answer = question()
            if answer:
                return answer
        time.sleep(0.25)
    raise AssertionError(f"{what}: not within {seconds} s")


class Receiver:
    """Remembers what is posted to it: (path, body)."""

    def __init__(self, stack):
        posts = self.posts = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posts.append((self.path.strip("/"), json.loads(body)))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}"

    def groups(self, receiver, status):
        """Of each message to the receiver: the labels of its group, and its alerts of that status."""
        return [
            (body["groupLabels"], [alert for alert in body["alerts"] if alert["status"] == status])
            for path, body in list(self.posts)
            if path == receiver
        ]


class Mailbox:
    """A mail server that takes everything; the messages as text."""

    def __init__(self, stack):
        mails = self.mails = []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                self.wfile.write(b"220 test\r\n")
                for line in self.rfile:
                    word = line[:4].upper().strip()
                    if word == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        lines = iter(self.rfile.readline, b".\r\n")
                        mails.append(b"".join(lines).decode())
                    self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        self.address = f"127.0.0.1:{server.server_address[1]}"


def start(stack, *command, **options):
    process = subprocess.Popen([str(word) for word in command], **options)
    stack.callback(process.wait, 10)
    stack.callback(process.terminate)
    return process


def program(name, package):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} (Debian: {package})")
    return found


class Alertmanager:
    """The real one, with this configuration."""

    def __init__(self, stack, folder, config):
        path, port = folder / "alertmanager.yml", free_port()
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        self.address = f"127.0.0.1:{port}"
        start(
            stack,
            program("prometheus-alertmanager", "prometheus-alertmanager"),
            f"--config.file={path}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
            "--log.level=warn",
        )
        until(20, lambda: self.alerts() is not None, "Alertmanager")

    def alerts(self):
        """Every alert, with status.state active or suppressed."""
        return fetch(f"http://{self.address}/api/v2/alerts")

    def post(self, alerts):
        fetch(f"http://{self.address}/api/v2/alerts", alerts)


class Prometheus:
    """The real one, with the shipped rules in short; it scrapes `targets`, which may be replaced.

    Their clocks run `speed` times as fast as life.
    """

    def __init__(self, stack, folder, alertmanager, targets, speed=FACTOR):
        self._targets, port = folder / "targets.json", free_port()
        self.scrape(targets)
        (folder / "rules").mkdir()
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [short_rules(folder / "rules", speed)],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.address]}]}]},
            "scrape_configs": [
                {
                    "job_name": "gpuwait",
                    # scraped each second by several targets, and faster than life: its cost says nothing
                    "metric_relabel_configs": [
                        {
                            "source_labels": ["__name__"],
                            "regex": "process_cpu_seconds_total",
                            "action": "drop",
                        }
                    ],
                    "file_sd_configs": [{"files": [str(self._targets)], "refresh_interval": "1s"}],
                }
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.address = f"127.0.0.1:{port}"
        start(
            stack,
            program("prometheus", "prometheus"),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={self.address}",
            "--rules.alert.resend-delay=1s",
            "--log.level=error",
        )
        until(30, lambda: self.ask("vector(1)"), "Prometheus")

    def scrape(self, targets):
        """Scrape these from now on: (address, labels)."""
        new = self._targets.with_suffix(".new")
        new.write_text(json.dumps([{"targets": [address], "labels": labels} for address, labels in targets]))
        new.replace(self._targets)

    def ask(self, expression):
        query = urllib.parse.quote(expression)
        result = fetch(f"http://{self.address}/api/v1/query?query={query}")["data"]["result"]
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in result}
