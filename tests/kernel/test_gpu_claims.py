"""Texts that name a GPU that someone was given."""

from __future__ import annotations

import pytest

from gpuwait.kernel.gpu_claims import Device, parse_device, parse_dynamic, parse_job_file

U = "5a1b2c3d-0000-4111-8222-333344445555"


@pytest.mark.parametrize(
    ("text", "resource", "device"),
    [
        (f"GPU-{U}", "nvidia.com/gpu", Device("uuid", f"GPU-{U}")),
        (f"GPU-{U.upper()}", "nvidia.com/gpu", Device("uuid", f"GPU-{U}")),
        (f"GPU-{U}::3", "nvidia.com/gpu.shared", Device("uuid", f"GPU-{U}", shared=True)),
        (f"GPU-{U}::3", "example.org/cheap-gpu", Device("uuid", f"GPU-{U}", shared=True)),
        (f"MIG-{U}", "nvidia.com/mig-1g.10gb", Device("mig", f"MIG-{U}")),
        (f"MIG-{U}::7", "nvidia.com/mig-1g.10gb.shared", Device("mig", f"MIG-{U}", shared=True)),
        (f"GPU-{U}-17", "nvidia.com/gpu", Device("uuid", f"GPU-{U}", shared=True)),
        (f"MIG-{U}-0", "nvidia.com/gpu", Device("mig", f"MIG-{U}", shared=True)),
        (f"MIG-GPU-{U}/3/0", "nvidia.com/gpu", Device("uuid", f"GPU-{U}", shared=True)),
        ("nvidia0", "nvidia.com/gpu", Device("minor", "0")),
        ("nvidia12/vgpu1", "nvidia.com/gpu", Device("minor", "12", shared=True)),
        ("nvidia0/gi1", "nvidia.com/gpu", Device("minor", "0", shared=True)),
        ("nvidia0/gi1/vgpu2", "nvidia.com/gpu", Device("minor", "0", shared=True)),
        ("0000:83:00.0", "amd.com/gpu", Device("pci", "0000:83:00.0")),
        ("Ascend910-3", "huawei.com/Ascend910", Device("index", "3")),
    ],
)
def test_devices_of_plugins(text: str, resource: str, device: Device) -> None:
    """Every shape of device plugins is understood without an option, whatever the resource is called."""
    assert parse_device(text, resource) == device


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("", "nvidia.com/gpu"),
        ("0000:83:00.0", "nvidia.com/sriov_rdma"),
        ("kvm17", "devices.kubevirt.io/kvm"),
        (f"GPU-{U}x", "nvidia.com/gpu"),
        (f"GPU-{U}::", "nvidia.com/gpu"),
        (f"GPU-{U}-", "nvidia.com/gpu"),
        (f"GPU-{U}-1-2", "nvidia.com/gpu"),
        (f"GPU-{U[:-2]}-17", "nvidia.com/gpu"),
        ("nvidia0/../../x", "nvidia.com/gpu"),
        ("nvidia" + "9" * 400, "nvidia.com/gpu"),
        ("Ascend910-3", "example.org/x"),
    ],
)
def test_other_devices(text: str, resource: str) -> None:
    """A network card, /dev/kvm or nonsense is no GPU."""
    assert parse_device(text, resource) is None


@pytest.mark.parametrize(
    ("driver", "name", "device"),
    [
        ("gpu.nvidia.com", "gpu-2", Device("minor", "2")),
        ("gpu.nvidia.com", "gpu-2-mig-19-0", Device("minor", "2", shared=True)),
        ("gpu.nvidia.com", "gpu-1-mig-1g5gb-19-4", Device("minor", "1", shared=True)),
        ("gpu.nvidia.com", "gpu-0-mig-1g10gb-me-20-0", Device("minor", "0", shared=True)),
        ("", f"k8s.gpu.nvidia.com/claim={U}-gpu-1-mig-1g5gb-19-4", Device("minor", "1", shared=True)),
        ("gpu.nvidia.com", "gpu-1-mig-", None),
        ("gpu.nvidia.com", "gpu-vfio-1", None),
        ("gpu.nvidia.com", f"GPU-{U}", Device("uuid", f"GPU-{U}")),
        ("", "nvidia.com/gpu=0", Device("index", "0")),
        ("", f"nvidia.com/gpu=GPU-{U}", Device("uuid", f"GPU-{U}")),
        ("", f"k8s.gpu.nvidia.com/claim={U}-gpu-1", Device("minor", "1")),
        ("", "k8s.gpu.nvidia.com/device=gpu-1", Device("minor", "1")),
        ("", "nvidia.com/gpu=all", None),
        ("", "vendor.com/nic=0", None),
        ("nic.example.org", "gpu-2", None),
        ("gpu.example.com", "gpu-3", None),
        ("gpu.intel.com", "gpu-6", None),
        ("gpu.notnvidia.com", "gpu-6", None),
        ("gpu.intel.com", "intel.com/gpu=0", None),
        ("", "notnvidia.com/gpu=0", None),
    ],
)
def test_dynamic_resources(driver: str, name: str, device: Device | None) -> None:
    """Device names of NVIDIA's driver for dynamic resources, and CDI names."""
    assert parse_dynamic(driver, name) == device


@pytest.mark.parametrize(
    ("name", "text", "device", "jobs"),
    [
        ("0", "4711\n", Device("index", "0"), ("4711",)),
        ("7", "4711\n4712\n4711\n\n", Device("index", "7"), ("4711", "4712")),
        ("0.7", "4711", Device("index", "0", shared=True), ("4711",)),
        ("3", "45916256 262563\n", Device("index", "3"), ("45916256",)),
        (f"MIG-{U}", "45916256 262563\n", Device("mig", f"MIG-{U}"), ("45916256",)),
        ("2", "", Device("index", "2"), ()),
        ("2", "not a job\n<script>\n12\n", Device("index", "2"), ("12",)),
        ("1", "4711_3\n", Device("index", "1"), ("4711_3",)),
        ("1", "sEKNKTV3WPV500\nsmall\n", Device("index", "1"), ("sEKNKTV3WPV500",)),
        ("1", '{"SLURM_JOB_ID": "742", "SLURM_JOB_USER": "u"}', Device("index", "1"), ("742",)),
        ("1", '{"SLURM_JOB_ID": 742}', Device("index", "1"), ("742",)),
        ("1", '{"SLURM_JOB_ID": null}', Device("index", "1"), ()),
        ("1", '{"SLURM_JOB_ID": ["742"]}', Device("index", "1"), ()),
        ("1", "{broken", Device("index", "1"), ()),
        ("1", '{"a":' * 50_000, Device("index", "1"), ()),
    ],
)
def test_files_of_a_prolog(name: str, text: str, device: Device, jobs: tuple[str, ...]) -> None:
    """A job a line, or AMD's JSON; the first word of a line counts, and what is no job is left out."""
    assert parse_job_file(name, text) == (device, jobs)


@pytest.mark.parametrize("name", ["slurm_job.json", "README", ".0.swp", "0.tmp", ""])
def test_other_files(name: str) -> None:
    """A file that is not named after a GPU is another program's."""
    assert parse_job_file(name, "4711\n") is None
