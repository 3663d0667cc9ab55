"""Asking a daemon, and durations."""

import http.server
import threading
import time

import pytest

from gpuwait.explain import Report, as_json, ask, parse_duration


def server(body, status=200, delay=0.0):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.paths.append(self.path)
            time.sleep(delay)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    found = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    found.paths = []
    threading.Thread(target=found.serve_forever, daemon=True).start()
    return found, f"http://127.0.0.1:{found.server_port}/api/v1/verdict"


def test_a_daemon_answers():
    """Its report comes as it was made."""
    report = Report(60.0, "All is well.")
    running, url = server(as_json(report).encode())
    assert ask(url) == report
    running.shutdown()
    running.server_close()


@pytest.mark.parametrize(
    ("body", "status", "delay"), [(b"hello", 200, 0), (b"{}", 404, 0), (b"", 500, 0), (b"{}", 200, 1.0)]
)
def test_something_else_answers(body, status, delay):
    """Another program on that port, an old daemon, or one that hangs: no answer, no error."""
    running, url = server(body, status, delay)
    assert ask(url, timeout=0.3) is None
    running.shutdown()
    running.server_close()


def test_nobody_answers():
    """A closed port is no error either."""
    running, url = server(b"")
    running.shutdown()
    running.server_close()
    assert ask(url) is None


@pytest.mark.parametrize("rest", ["", "/"])
def test_the_path_may_be_left_out(rest):
    """Host and port are enough."""
    report = Report(60.0, "All is well.")
    running, url = server(as_json(report).encode())
    assert ask(url.removesuffix("/api/v1/verdict") + rest) == report
    assert running.paths == ["/api/v1/verdict"]
    running.shutdown()
    running.server_close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://x/",
        "https://x/",
        "127.0.0.1:9410",
        "http://",
        "http://:9410/",
        "http://x:99999/",
        "http://x:0/",
        "http://x:port/",
        "http://x:-1",
        "http://[::1",
        "http://a b/",
        "http://a\x01b/",
        "http://..:80/",
        "http://" + "a" * 70 + "/",
        "http://x/a b",
        "http://x/\u00e9",
    ],
)
def test_no_address(url):
    """What is no http URL with a host and a port is refused, in one line that names the option."""
    with pytest.raises(ValueError, match=r"^--url: .* is no address such as http[^\n]*$"):
        ask(url)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("10", 10),
        ("1m", 60),
        ("1m30s", 90),
        ("1h", 3600),
        ("1500ms", 1.5),
        (" 5s ", 5),
        ("2.5s", 2.5),
    ],
)
def test_durations(text, seconds):
    """As Prometheus writes them, and bare seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "10 s", "-1s", "1d", "0s", "2h", "1e3", "nan", "٣s", "9" * 50])
def test_no_durations(text):
    """Everything else, and what is too short or too long, is refused with an example."""
    with pytest.raises(ValueError, match=r"10s|1s"):
        parse_duration(text)
