"""Names of the kubelet's logs."""

from __future__ import annotations

import pytest

from gpuwait.kernel.kubelet_logs import ContainerName, parse_container_log, parse_pod_log

ID = "4f" * 32
UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"


@pytest.mark.parametrize(
    ("name", "pod", "namespace", "container"),
    [
        (f"train-0_research_main-{ID}.log", "train-0", "research", "main"),
        (f"a.b-c.d_ns-1_data-loader-2-{ID}.log", "a.b-c.d", "ns-1", "data-loader-2"),
        (f"etcd-node1_kube-system_etcd-{ID}.log", "etcd-node1", "kube-system", "etcd"),
        (f"x_y_z-{ID}-{ID}.log", None, None, None),
        (f"{'p' * 254}_ns_c-{ID}.log", None, None, None),
    ],
)
def test_container_logs(name: str, pod: str | None, namespace: str, container: str) -> None:
    """Pod, namespace and container stand between underscores; dots and dashes belong to them."""
    expected = None if pod is None else (ID, ContainerName(namespace, pod, container))
    assert parse_container_log(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "train-0_research_main.log",
        f"train-0_research_main-{ID[:-1]}.log",
        f"train-0_research_main-{ID}.log.gz",
        f"Train_research_main-{ID}.log",
        f"a_b_c_d-{ID}.log",
        f'a"}} 1\n_b_c-{ID}.log',
        f"../../etc_b_c-{ID}.log",
    ],
)
def test_other_names_of_containers(name: str) -> None:
    """A cut, foreign or hostile name tells nothing."""
    assert parse_container_log(name) is None


def test_pod_logs() -> None:
    """Namespace, pod and uid; of a static pod the hash of its configuration."""
    assert parse_pod_log(f"research_train-0_{UID}") == (
        UID,
        ContainerName("research", "train-0", pod_uid=UID),
    )
    static = "5f0e4c2b8d7a69130c1f8a5277b14a3e"
    assert parse_pod_log(f"kube-system_etcd.node-1_{static}") == (
        static,
        ContainerName("kube-system", "etcd.node-1", pod_uid=static),
    )


@pytest.mark.parametrize("name", ["", "research_train-0", f"research_{UID}", f"a_b_c_{UID}", f"a_b_{UID}0"])
def test_other_names_of_pods(name: str) -> None:
    """What has another form tells nothing."""
    assert parse_pod_log(name) is None
