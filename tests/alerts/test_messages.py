"""What arrives in the chat, in the mail and at the pager, by the shipped templates."""

import contextlib
import email
import email.policy
import html
import re
import shutil
import subprocess  # noqa: TID251 - the browser is a process of its own

import paging
import pytest

pytestmark = pytest.mark.e2e

FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --virtual-time-budget=1000".split()
#: The mail in a frame, since a browser's window cannot be as narrow as a phone.
FRAME = """<!DOCTYPE html><body>
<iframe id="f" style="width:390px;height:400px;border:0" srcdoc="PAGE"></iframe>
<script>f.onload = () => {
  const e = f.contentDocument.documentElement, out = document.createElement("pre");
  out.id = "measured";
  out.textContent = `${e.scrollWidth} ${e.querySelector("div").getBoundingClientRect().bottom | 0}`;
  document.body.append(out);
}</script></body>"""

START, END = "2026-03-03T14:02:00Z", "2026-03-03T15:20:00Z"
LINKS = (
    "https://gpuwait.example/runbooks/{}.md",
    "https://grafana.example/d/gpuwait-node?var-node={}&from=now-3h",
)


def alert(name, summary, short, description, **labels):
    labels = {"alertname": name, "cluster": "a", "severity": "warning", "component": "gpu-wait"} | labels
    texts = {"summary": summary, "short": short, "description": description}
    links = {"runbook_url": LINKS[0].format(name), "dashboard_url": LINKS[1].format(labels.get("node", ""))}
    return {"labels": labels, "annotations": texts | links, "startsAt": START}


NFS = alert(
    "GPUWaitingOnNFS", "GPUs wait for an NFS server.", "62%",
    "Node gpu-07: a GPU loses 62% of its time to an NFS server.  Slowest mount: /data, 187ms an answer.",
    node="gpu-07", cause="nfs",
)  # fmt: skip
TWO = [
    alert("GPUWaitingOnNFS", "GPUs wait for an NFS server.", "62%", "Node gpu-08: x.", node="gpu-08"),
    alert("GPUWaitingOnDisk", "GPUs wait for a local disk.", "35%", "Node gpu-08: y.", node="gpu-08"),
]
HOSTILE = alert(
    "GPUWaitingOnDisk", "GPUs wait for a local disk.", "40%",
    "Node gpu-09: a GPU loses 40% of its time to a local disk. Held by a&b/<!channel>.",
    node="gpu-09",
)  # fmt: skip
FLEET = alert(
    "GPUWaitingFleet", "GPUs wait on many nodes at once.", "34% of nodes",
    "Cluster b: 34% of the nodes with GPUs in use wait. Nodes by cause: nfs 40.",
    cluster="b", severity="critical",
)  # fmt: skip


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """What arrived: posts in order, mails by subject."""
    with contextlib.ExitStack() as stack:
        receiver, mailbox = paging.Receiver(stack), paging.Mailbox(stack)
        folder = tmp_path_factory.mktemp("messages")
        config = paging.real_receivers(paging.short_routes(), receiver.url, mailbox.address, folder)
        alertmanager = paging.Alertmanager(stack, folder, config)
        alertmanager.post([NFS, *TWO, HOSTILE, FLEET])
        paging.until(20, lambda: len(receiver.posts) >= 5 and len(mailbox.mails) >= 3, "the messages")
        alertmanager.post([NFS | {"endsAt": END}])
        paging.until(20, lambda: len(receiver.posts) >= 6 and len(mailbox.mails) >= 4, "the end")
        mails = [email.message_from_string(text, policy=email.policy.default) for text in mailbox.mails]
        return receiver.posts, {mail["Subject"]: mail for mail in mails}


@pytest.fixture
def chat(messages):
    """Title, text and colour of each message of the chat, by title."""
    posts = [body["attachments"][0] for path, body in messages[0] if path == "chat"]
    return {post["title"]: (post["text"], post["color"]) for post in posts}


def test_one_cause_is_three_lines(chat):
    """Node, cause and how bad; the evidence; since when, and two links."""
    text, color = chat["gpu-07: GPUs wait for an NFS server (62%)"]
    assert text.splitlines() == [
        "A GPU loses 62% of its time to an NFS server. Slowest mount: /data, 187ms an answer.",
        "cluster a, alert since Tue 14:02 UTC · <https://gpuwait.example/runbooks/GPUWaitingOnNFS.md|Runbook>"
        " · <https://grafana.example/d/gpuwait-node?var-node=gpu-07&amp;from=now-3h|Dashboard>",
    ]
    assert color == "warning"


def test_two_causes_on_a_node_are_one_message(chat):
    """A line for each."""
    (text,) = (text for title, (text, _) in chat.items() if title.startswith("gpu-08: "))
    lines = sorted(line.split(",")[0] for line in text.splitlines())
    assert lines == [
        "• gpu-08: GPUs wait for a local disk (35%)",
        "• gpu-08: GPUs wait for an NFS server (62%)",
    ]
    assert [title for title in chat if title.startswith("gpu-08: ") and title.endswith(" +1 more")]


def test_foreign_text_calls_nobody(chat):
    """A pod that is named like a command of the chat is shown, not obeyed."""
    text, _ = chat["gpu-09: GPUs wait for a local disk (40%)"]
    assert "Held by a&amp;b/&lt;!channel&gt;." in text
    assert "<!" not in text


def test_the_end_is_told(chat):
    """From when to when, in green."""
    assert chat["Over: gpu-07: GPUs wait for an NFS server"] == (
        "Over: gpu-07: GPUs wait for an NFS server, Tue 14:02 to Tue 15:20 UTC\n",
        "good",
    )


def test_the_fleet_wakes_somebody_and_is_told_in_the_chat(messages, chat):
    """The pager's text is the mail's."""
    (page,) = (body for path, body in messages[0] if path == "pagerduty")
    assert page["routing_key"] == "a-key"
    assert page["payload"]["summary"] == "PAGE b: GPUs wait on many nodes at once (34% of nodes)"
    assert page["payload"]["custom_details"]["firing"].splitlines()[:3] == [
        "b: GPUs wait on many nodes at once (34% of nodes)",
        "34% of the nodes with GPUs in use wait. Nodes by cause: nfs 40.",
        "cluster b, alert since Tue 14:02 UTC",
    ]
    assert chat["PAGE b: GPUs wait on many nodes at once (34% of nodes)"][1] == "danger"


def test_a_mail_is_text_and_html(messages):
    """The subject is the first line; both parts have the evidence and the links."""
    mail = messages[1]["gpu-07: GPUs wait for an NFS server (62%)"]
    text = mail.get_body(("plain",)).get_content()
    assert text.splitlines() == [
        "gpu-07: GPUs wait for an NFS server (62%)",
        "A GPU loses 62% of its time to an NFS server. Slowest mount: /data, 187ms an answer.",
        "cluster a, alert since Tue 14:02 UTC",
        "Runbook: https://gpuwait.example/runbooks/GPUWaitingOnNFS.md",
        "Dashboard: https://grafana.example/d/gpuwait-node?var-node=gpu-07&from=now-3h",
    ]
    page = mail.get_body(("html",)).get_content()
    assert ">gpu-07: GPUs wait for an NFS server (62%)</h1>" in page
    assert 'href="https://grafana.example/d/gpuwait-node?var-node=gpu-07&amp;from=now-3h"' in page


def test_foreign_text_is_no_html(messages):
    """Names are escaped in the mail."""
    page = messages[1]["gpu-09: GPUs wait for a local disk (40%)"].get_body(("html",)).get_content()
    assert "a&amp;b/&lt;!channel&gt;" in page


def test_no_message_dumps_labels(messages):
    """Nobody reads `alertname = ... component = ...` on a phone."""
    chats = [body["attachments"][0] for path, body in messages[0] if path == "chat"]
    texts = [str(one) for one in chats] + [mail.as_string() for mail in messages[1].values()]
    assert [text for text in texts if "component" in text or "alertname" in text] == []


@pytest.mark.parametrize("subject", ["gpu-07: GPUs wait for an NFS server (62%)", "gpu-08: "])
def test_a_mail_fits_a_phone(subject, messages, tmp_path):
    """Nothing is wider than 390 pixels, and one cause with its links is seen without scrolling."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs chromium")
    (mail,) = (mail for title, mail in messages[1].items() if title.startswith(subject))
    page = html.escape(mail.get_body(("html",)).get_content(), quote=True)
    (tmp_path / "frame.html").write_text(FRAME.replace("PAGE", page))
    command = [browser, *FLAGS, "--dump-dom", f"file://{tmp_path}/frame.html"]
    seen = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    width, height = map(int, re.search(r'"measured">(\d+) (\d+)<', seen).groups())
    assert width <= 390
    assert 100 < height < 500
