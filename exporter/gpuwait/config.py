"""Options: one frozen dataclass; flag, `GPUWAIT_*` variable and help derive from its fields (see flags)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpuwait.collector import Collector
from gpuwait.host import Host, read_text
from gpuwait.listen import parse_address
from gpuwait.settings import Settings, SettingsError
from gpuwait.settings import parse as parse_settings
from gpuwait.sources import CollectorOptions, Filter
from gpuwait.workload.owners import Owners

#: Devices that say nothing about storage: compressed memory, images, floppies.
NO_DISKS = r"(loop|ram|zram|fd)\d+"


class ConfigError(Exception):
    """An option that cannot be used. The message is one line that names it and says what is right."""


def _option(
    flag: str,
    help_text: str,
    default: Any,
    *,
    parse: Callable[[str], Any] = str,
    metavar: str | None = None,
    repeat: bool = False,
    choices: tuple[str, ...] | None = None,
) -> Any:
    meta = {
        "flag": flag,
        "help": help_text,
        "parse": parse,
        "metavar": metavar,
        "repeat": repeat,
        "choices": choices,
    }
    return field(default=default, metadata=meta)


def pattern(text: str) -> re.Pattern[str] | None:
    """A pattern, None for an empty text; raises ValueError with what is wrong."""
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error


def _address(text: str) -> str:
    parse_address(text)
    return text


def _metrics_path(text: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._~/-]+", text) or text.startswith("/-/"):
        raise ValueError(f"{text!r} is no path such as /metrics")
    return text


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 60:
        raise ValueError(f"{text!r} is no number of seconds above 0 and up to 60")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1000):
        raise ValueError(f"{text!r} is not a whole number from 1 to 1000")
    return int(text)


@dataclass(frozen=True, slots=True)
class Config:
    """Options of every command."""

    path_procfs: str = _option("path.procfs", "mount point of procfs", "/proc", metavar="DIR")
    path_sysfs: str = _option("path.sysfs", "mount point of sysfs", "/sys", metavar="DIR")
    path_rootfs: str = _option("path.rootfs", "root of the host's file system", "/", metavar="DIR")
    path_udev_data: str = _option("path.udev.data", "udev's database", "/run/udev/data", metavar="DIR")
    path_pod_resources: str = _option(
        "path.pod-resources",
        "the kubelet's PodResources socket (default: the usual places below --path.rootfs)",
        "",
        metavar="FILE",
    )
    path_gpu_jobs: tuple[str, ...] = _option(
        "path.gpu-jobs",
        "directory where a Slurm prolog writes the job of each GPU; may be repeated "
        "(run/exporter below --path.rootfs is always looked at)",
        (),
        metavar="DIR",
        repeat=True,
    )
    log_level: str = _option(
        "log.level", "least severe line to log", "info", choices=("debug", "info", "warn", "error")
    )
    log_format: str = _option("log.format", "form of log lines", "logfmt", choices=("logfmt", "json"))
    disk_device_include: re.Pattern[str] | None = _option(
        "collector.disk.device-include", "disks to export", None, parse=pattern, metavar="REGEX"
    )
    disk_device_exclude: re.Pattern[str] | None = _option(
        "collector.disk.device-exclude",
        "disks to leave out",
        re.compile(NO_DISKS),
        parse=pattern,
        metavar="REGEX",
    )
    nfs_mountpoint_include: re.Pattern[str] | None = _option(
        "collector.nfs.mountpoint-include", "NFS mount points to export", None, parse=pattern, metavar="REGEX"
    )
    nfs_mountpoint_exclude: re.Pattern[str] | None = _option(
        "collector.nfs.mountpoint-exclude",
        "NFS mount points to leave out",
        None,
        parse=pattern,
        metavar="REGEX",
    )
    cgroup_path_include: re.Pattern[str] | None = _option(
        "collector.cgroup.path-include", "cgroup paths to export", None, parse=pattern, metavar="REGEX"
    )
    cgroup_path_exclude: re.Pattern[str] | None = _option(
        "collector.cgroup.path-exclude", "cgroup paths to leave out", None, parse=pattern, metavar="REGEX"
    )
    gpfs_mmpmon: str = _option(
        "collector.gpfs.mmpmon",
        "the mmpmon program, asked by the collector gpfs",
        "/usr/lpp/mmfs/bin/mmpmon",
        metavar="FILE",
    )
    gpfs_mmdiag: str = _option(
        "collector.gpfs.mmdiag",
        "the mmdiag program, asked for waiters where the collector gpfs is on",
        "/usr/lpp/mmfs/bin/mmdiag",
        metavar="FILE",
    )
    collector_timeout: float = _option(
        "collector.timeout",
        "seconds one collector may take in a scrape",
        2.0,
        parse=_positive,
        metavar="SECONDS",
    )
    disable_defaults: bool = _option(
        "collector.disable-defaults", "only the collectors named by --collector.NAME", False
    )
    web_listen_address: tuple[str, ...] = _option(
        "web.listen-address",
        "address to listen on; may be repeated",
        (":9410",),
        parse=_address,
        metavar="HOST:PORT",
        repeat=True,
    )
    web_telemetry_path: str = _option(
        "web.telemetry-path", "path of the metrics", "/metrics", parse=_metrics_path, metavar="PATH"
    )
    web_max_requests: int = _option(
        "web.max-requests", "scrapes in hand at once; 503 beyond", 16, parse=_count, metavar="N"
    )
    web_config_file: str = _option(
        "web.config.file",
        "YAML file with TLS, client certificates, users and headers, in the format of other exporters",
        "",
        metavar="FILE",
    )
    config_file: str = _option(
        "config.file", "YAML file with thresholds of the wait causes and prices of GPUs", "", metavar="FILE"
    )
    enable_delayacct: bool = _option(
        "enable-delayacct",
        "write 1 to kernel.task_delayacct, so that processes started later have their delays counted",
        False,
    )
    collectors: tuple[Collector, ...] = ()

    def host(self) -> Host:
        """The configured host. Raises ConfigError where a path cannot be read."""
        for name in ("path_procfs", "path_sysfs", "path_rootfs"):
            path = getattr(self, name)
            try:
                os.scandir(path).close()
            except OSError as error:
                raise ConfigError(
                    f"--{name.replace('_', '.')}: {path}: {error.strerror}; it must be a readable directory"
                ) from error
        return Host(
            self.path_procfs.rstrip("/") or "/",
            self.path_sysfs.rstrip("/") or "/",
            self.path_rootfs,
            self.path_udev_data,
        )

    def owners(self) -> Owners:
        """What says whose processes and GPUs are, not started. Raises ConfigError."""
        return Owners.build(
            self.host(),
            self.collector_options().cgroups,
            kubelet_socket=self.path_pod_resources,
            job_directories=self.path_gpu_jobs,
        )

    def settings(self) -> Settings:
        """What `--config.file` says. Raises ConfigError."""
        if not self.config_file:
            return Settings()
        try:
            return parse_settings(read_text(self.config_file), self.config_file)
        except OSError as error:
            raise ConfigError(f"--config.file: {self.config_file}: {error.strerror}") from error
        except SettingsError as error:
            raise ConfigError(f"--config.file: {error}") from error

    def collector_options(self) -> CollectorOptions:
        """The options of collectors. Raises ConfigError for patterns that exclude each other."""
        return CollectorOptions(
            disk_devices=self._filter("disk.device", self.disk_device_include, self.disk_device_exclude),
            nfs_mounts=self._filter(
                "nfs.mountpoint", self.nfs_mountpoint_include, self.nfs_mountpoint_exclude
            ),
            cgroups=self._filter("cgroup.path", self.cgroup_path_include, self.cgroup_path_exclude),
            gpfs_mmpmon=self.gpfs_mmpmon,
            gpfs_mmdiag=self.gpfs_mmdiag if any(c.name == "gpfs" for c in self.collectors) else "",
        )

    @staticmethod
    def _filter(name: str, include: re.Pattern[str] | None, exclude: re.Pattern[str] | None) -> Filter:
        default = exclude is not None and exclude.pattern == NO_DISKS
        if include is not None and default:
            return Filter(include)
        if include is not None and exclude is not None:
            raise ConfigError(f"--collector.{name}-include and -exclude exclude each other: give one of them")
        return Filter(include, exclude)
