"""The kubelet's PodResources service: a real gRPC server, and sockets that misbehave."""

from __future__ import annotations

import builtins
import logging
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from gpuwait.host import Host
from gpuwait.kernel.gpu_claims import Device
from gpuwait.kernel.pod_resources import Grant
from gpuwait.workload import kubelet as module
from gpuwait.workload.kubelet import Kubelet

U = "5a1b2c3d-0000-4111-8222-333344445555"
#: Message -> fields (name, number, type or message, repeated), from the kubelet's api.proto.
MESSAGES: dict[str, list[tuple[str, int, str, bool]]] = {
    "NUMANode": [("ID", 1, "int64", False)],
    "TopologyInfo": [("nodes", 1, "NUMANode", True)],
    "ContainerDevices": [
        ("resource_name", 1, "string", False),
        ("device_ids", 2, "string", True),
        ("topology", 3, "TopologyInfo", False),
    ],
    "ContainerMemory": [("memory_type", 1, "string", False), ("size", 2, "uint64", False)],
    "CDIDevice": [("name", 1, "string", False)],
    "ClaimResource": [
        ("cdi_devices", 1, "CDIDevice", True),
        ("driver_name", 2, "string", False),
        ("pool_name", 3, "string", False),
        ("device_name", 4, "string", False),
        ("share_id", 5, "string", False),
    ],
    "DynamicResource": [
        ("claim_name", 2, "string", False),
        ("claim_namespace", 3, "string", False),
        ("claim_resources", 4, "ClaimResource", True),
    ],
    "ContainerResources": [
        ("name", 1, "string", False),
        ("devices", 2, "ContainerDevices", True),
        ("cpu_ids", 3, "int64", True),
        ("memory", 4, "ContainerMemory", True),
        ("dynamic_resources", 5, "DynamicResource", True),
    ],
    "PodResources": [
        ("name", 1, "string", False),
        ("namespace", 2, "string", False),
        ("containers", 3, "ContainerResources", True),
    ],
    "ListPodResourcesResponse": [("pod_resources", 1, "PodResources", True)],
}
TYPES = {"string": 9, "int64": 3, "uint64": 4}


def message_classes() -> dict[str, Any]:
    """Classes of the kubelet's messages, by protobuf itself."""
    file = descriptor_pb2.FileDescriptorProto(name="podresources.proto", package="v1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            added = message.field.add(name=field, number=number, label=3 if repeated else 1)
            if kind in TYPES:
                added.type = TYPES[kind]
            else:
                added.type, added.type_name = 11, f".v1.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in MESSAGES
    }


CLASSES = message_classes()


def answer(*pods: dict[str, Any]) -> bytes:
    """What a kubelet with these pods sends."""
    return bytes(CLASSES["ListPodResourcesResponse"](pod_resources=pods).SerializeToString())


def pod(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "namespace": "ml", "containers": containers}


def gpus(container: str, *ids: str, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    nodes = {"nodes": [{"ID": 1}]}
    return {
        "name": container,
        "devices": [{"resource_name": resource, "device_ids": [i], "topology": nodes} for i in ids],
        "cpu_ids": [0, 1, 2, 300],
        "memory": [{"memory_type": "memory", "size": 2**40}],
    }


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name: that of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


class Server:
    """A real gRPC server in the kubelet's place."""

    def __init__(self, path: Path, reply: Callable[[bytes, Any], bytes]) -> None:
        handler = grpc.unary_unary_rpc_method_handler(reply)
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
        self._server = grpc.server(ThreadPoolExecutor(2), handlers=(service,))
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def serve(place: Path) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(reply: Callable[[bytes, Any], bytes] | bytes) -> Server:
        said = reply if callable(reply) else lambda _request, _context: reply
        servers.append(Server(place / "kubelet.sock", said))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def kubelet(place: Path) -> Kubelet:
    return Kubelet(Host(), f"{place}/kubelet.sock")


def test_real_server(serve: Callable[..., Server], kubelet: Kubelet) -> None:
    """What a real gRPC server sends is understood: plain, shared, dynamic and other devices."""
    dynamic = {
        "name": "main",
        "dynamic_resources": [
            {
                "claim_name": "c",
                "claim_namespace": "ml",
                "claim_resources": [
                    {
                        "driver_name": "gpu.nvidia.com",
                        "pool_name": "n1",
                        "device_name": "gpu-3",
                        "cdi_devices": [{"name": "k8s.gpu.nvidia.com/device=gpu-3"}],
                    },
                    {"driver_name": "gpu.nvidia.com", "device_name": "gpu-4", "share_id": "5f3c"},
                    {"cdi_devices": [{"name": f"nvidia.com/gpu=GPU-{U}"}]},
                ],
            }
        ],
    }
    serve(
        answer(
            pod("train-0", gpus("main", f"GPU-{U}"), gpus("side")),
            pod("shared-0", gpus("a", f"GPU-{U}::1", resource="nvidia.com/gpu.shared"), gpus("b", "nvidia1")),
            pod("claim-0", dynamic),
            pod("net-0", gpus("x", "0000:3b:00.2", resource="nvidia.com/rdma")),
            pod("nothing"),
        )
    )
    kubelet.look()
    assert kubelet.reason == ""
    assert kubelet.latest is not None
    assert kubelet.latest.grants == (
        Grant("ml", "train-0", "main", Device("uuid", f"GPU-{U}")),
        Grant("ml", "shared-0", "a", Device("uuid", f"GPU-{U}", shared=True)),
        Grant("ml", "shared-0", "b", Device("minor", "1")),
        Grant("ml", "claim-0", "main", Device("minor", "3"), "ml/c"),
        Grant("ml", "claim-0", "main", Device("minor", "4", shared=True), "ml/c"),
        Grant("ml", "claim-0", "main", Device("uuid", f"GPU-{U}"), "ml/c"),
    )


def test_request_as_the_server_sees_it(serve: Callable[..., Server], kubelet: Kubelet) -> None:
    """The request is an empty message with a deadline."""
    seen: list[tuple[bytes, float]] = []

    def reply(request: bytes, context: Any) -> bytes:
        seen.append((request, context.time_remaining()))
        return answer()

    serve(reply)
    kubelet.look()
    assert kubelet.latest is not None
    assert kubelet.latest.grants == ()
    assert seen[0][0] == b""
    assert 0 < seen[0][1] <= 2


def test_large_answer(serve: Callable[..., Server], kubelet: Kubelet) -> None:
    """An answer larger than HTTP/2's first window comes through whole."""
    pods = [pod(f"{'p' * 200}-{n}", gpus("main", f"nvidia{n % 16}")) for n in range(4000)]
    serve(answer(*pods))
    kubelet.look()
    assert kubelet.reason == ""
    assert kubelet.latest is not None
    assert len(kubelet.latest.grants) == 4000


def test_refusal_keeps_the_last_answer(serve: Callable[..., Server], kubelet: Kubelet) -> None:
    """A kubelet that answers with an error takes nothing away; the reason is told."""
    failing: list[bool] = []

    def reply(_request: bytes, context: Any) -> bytes:
        if failing:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        return answer(pod("train-0", gpus("main", "nvidia0")))

    serve(reply)
    kubelet.look()
    failing.append(True)
    kubelet.look()
    assert kubelet.latest is not None
    assert len(kubelet.latest.grants) == 1
    assert kubelet.reason == "the kubelet refused: gRPC status 8 rejected by rate limit"


def test_restart(
    serve: Callable[..., Server], kubelet: Kubelet, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A kubelet that restarts makes a new socket; the gap and the return are logged once each."""
    first = serve(answer(pod("train-0", gpus("main", "nvidia0"))))
    with caplog.at_level(logging.INFO):
        kubelet.look()
        first.stop()
        (place / "kubelet.sock").unlink(missing_ok=True)
        kubelet.look()
        kubelet.look()
        assert kubelet.reason == f"{place}/kubelet.sock: no such socket"
        serve(answer(pod("train-1", gpus("main", "nvidia0"))))
        kubelet.look()
    assert kubelet.latest is not None
    assert [grant.pod for grant in kubelet.latest.grants] == ["train-1"]
    assert [r.getMessage() for r in caplog.records if r.name.startswith("gpuwait")] == [
        f"kubelet: {place}/kubelet.sock: no such socket",
        "kubelet: answers",
    ]


def test_no_kubelet(place: Path) -> None:
    """A node without a kubelet has no answer and nothing to complain of."""
    quiet = Kubelet(Host(rootfs=str(place)))
    quiet.look()
    assert (quiet.latest, quiet.reason) == (None, "")


@pytest.mark.parametrize(
    "directory",
    ["var/lib/kubelet", "var/lib/k0s/kubelet", "var/snap/microk8s/common/var/lib/kubelet"],
)
def test_usual_places(place: Path, directory: str) -> None:
    """Without an option the socket is looked for below the root of the host."""
    usual = place / directory / "pod-resources"
    usual.mkdir(parents=True)
    server = Server(usual / "kubelet.sock", lambda _r, _c: answer(pod("p", gpus("c", "nvidia0"))))
    found = Kubelet(Host(rootfs=str(place)))
    found.look()
    server.stop()
    assert found.latest is not None
    assert len(found.latest.grants) == 1


def test_socket_without_a_listener(kubelet: Kubelet, place: Path) -> None:
    """A socket that a dead kubelet left behind is told."""
    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{place}/kubelet.sock")
    left.close()
    kubelet.look()
    assert kubelet.reason == f"{place}/kubelet.sock: Connection refused"


def test_missing_extra(kubelet: Kubelet, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library there is one line that says how to get it."""
    (place / "kubelet.sock").touch()
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("h2"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    kubelet.look()
    assert kubelet.reason == "the Python package h2 is not installed: pip install 'gpuwait[kubelet]'"


class Odd:
    """A socket that says something odd to whoever connects."""

    def __init__(self, path: Path, talk: Callable[[socket.socket], None]) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(4)
        threading.Thread(target=self._run, args=(talk,), daemon=True).start()

    def _run(self, talk: Callable[[socket.socket], None]) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer:
                try:
                    talk(peer)
                except OSError:
                    continue

    def stop(self) -> None:
        self._listener.close()


def _silent(_peer: socket.socket) -> None:
    time.sleep(3)


def _drip(peer: socket.socket) -> None:
    frame = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8)  # a ping now and then keeps a reader busy
    peer.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
    for _ in range(40):
        peer.sendall(frame)
        time.sleep(0.1)


@pytest.mark.parametrize("talk", [_silent, _drip])
def test_no_answer_within_the_deadline(
    kubelet: Kubelet, place: Path, talk: Callable[[socket.socket], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that accepts and never answers, or only pings, costs no more than the deadline."""
    monkeypatch.setattr(module, "DEADLINE", 0.5)
    odd = Odd(place / "kubelet.sock", talk)
    start = time.monotonic()
    kubelet.look()
    odd.stop()
    assert time.monotonic() - start < 1.5
    assert kubelet.reason == f"{place}/kubelet.sock: no answer within 0.5 s"


SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
#: Headers `:status 200` by the static table, end of headers.
HEADERS = b"\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff" * 100,
        SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
        SETTINGS + b"\x00\x00\x04\x03\x00\x00\x00\x00\x01" + struct.pack(">I", 8),
        SETTINGS + b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + bytes(8),
        SETTINGS + HEADERS + b"\x00\x00\x03\x00\x01\x00\x00\x00\x01abc",
        SETTINGS + HEADERS + b"\x00\x00\x00\x01\x05\x00\x00\x00\x01",
        SETTINGS + b"\x00\x00\x03\x01\x05\x00\x00\x00\x01\xff\xff\xff",
    ],
)
def test_garbage(kubelet: Kubelet, place: Path, said: bytes) -> None:
    """Other protocols, cut frames, resets and bodies that are none are refused with a reason."""

    def talk(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(said)
        time.sleep(0.05)

    odd = Odd(place / "kubelet.sock", talk)
    kubelet.look()
    odd.stop()
    assert kubelet.latest is None
    assert kubelet.reason
    assert len(kubelet.reason) <= 300
    assert "Error:" not in kubelet.reason


def test_closed_at_once(kubelet: Kubelet, place: Path) -> None:
    """A socket that hangs up is told in words, whether the request could be sent or not."""
    odd = Odd(place / "kubelet.sock", lambda _peer: None)
    reasons = set()
    for _ in range(20):
        kubelet.look()
        reasons.add(kubelet.reason)
    odd.stop()
    assert reasons == {f"{place}/kubelet.sock: closed without an answer"}


def test_answer_that_is_too_long(serve: Callable[..., Server], kubelet: Kubelet) -> None:
    """More than gRPC takes by default is refused with the limit; the last good answer stays."""
    said = [answer(pod("train-0", gpus("main", "nvidia0"))), answer(pod("x" * (4 * 1024 * 1024)))]
    serve(lambda _request, _context: said.pop(0))
    kubelet.look()
    kubelet.look()
    assert kubelet.latest is not None
    assert len(kubelet.latest.grants) == 1
    assert kubelet.reason == "the kubelet's answer is longer than 4 MiB"


def test_answer_that_is_no_message(serve: Callable[..., Server], kubelet: Kubelet) -> None:
    """Bytes that are no protobuf are refused; the last good answer stays."""
    said = [answer(pod("train-0", gpus("main", "nvidia0"))), b"\x0a\xff"]
    serve(lambda _request, _context: said.pop(0))
    kubelet.look()
    kubelet.look()
    assert kubelet.latest is not None
    assert len(kubelet.latest.grants) == 1
    assert kubelet.reason == "pod resources: a number without an end"


def test_thread(serve: Callable[..., Server], place: Path) -> None:
    """The thread asks at once and again and again, and ends when told."""
    asked = threading.Semaphore(0)

    def reply(_request: bytes, _context: Any) -> bytes:
        asked.release()
        return answer()

    serve(reply)
    kubelet = Kubelet(Host(), f"{place}/kubelet.sock", every=0.02)
    kubelet.start()
    kubelet.wait_first(5)
    assert kubelet.latest is not None
    for _ in range(3):
        assert asked.acquire(timeout=5)
    kubelet.stop()
