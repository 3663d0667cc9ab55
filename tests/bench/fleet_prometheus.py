"""The real Prometheus of the fleet's bench."""

import json
import os
import socket
import subprocess  # noqa: TID251 - the real Prometheus
import urllib.parse
import urllib.request

#: Other load of the machine is not what is measured.
NICE = ("nice", "-n", "-15") if os.geteuid() == 0 else ()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    """The real one, in the folder."""

    def __init__(self, stack, folder, port):
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [
                *NICE,
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ]
        )
        stack.callback(self.process.wait)
        stack.callback(self.process.terminate)

    def get(self, path, **query):
        url = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=300) as answer:
            return json.load(answer)["data"]

    def value(self, query):
        result = self.get("/api/v1/query", query=query)["result"]
        return float(result[0]["value"][1]) if result else None

    def metric(self, name):
        """One of its own figures."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return float(line.split()[1])
        return None
