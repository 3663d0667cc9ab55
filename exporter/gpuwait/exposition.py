"""From outcomes to bytes: text 0.0.4 by a renderer of our own, OpenMetrics by prometheus_client.

Rendering decides what a scrape costs: prometheus_client takes 10 us and more
a sample, this renderer about half a microsecond, since it keeps the text up to
the value of every series it has seen. Property tests hold the two equal.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from gpuwait import __version__
from gpuwait.gather import Groups, Outcome
from gpuwait.metrics import Family

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

BUILD_INFO = Family(
    "gpuwait_build_info",
    "gauge",
    "Version of this program and of the Python that runs it; always 1.",
    "the program",
    ("version", "pythonversion"),
)
SUCCESS = Family(
    "gpuwait_collector_success",
    "gauge",
    "1 where the collector worked in this scrape, 0 for a fault or a missed deadline.",
    "the program",
    ("collector",),
)
DURATION = Family(
    "gpuwait_collector_duration_seconds",
    "gauge",
    "Wall seconds the collector took in this scrape.",
    "the program",
    ("collector",),
)
AVAILABLE = Family(
    "gpuwait_collector_available",
    "gauge",
    "0 where the source, or the part of it that `reason` names, is not there on this node; else 1.",
    "the program",
    ("collector", "reason"),
)
DROPPED = Family(
    "gpuwait_series_dropped_total",
    "counter",
    "Samples left out: over the collector's series budget, a repeated label set, or no finite number.",
    "the program",
    ("collector",),
)
WEB_CONFIG = Family(
    "gpuwait_web_config_reload_success",
    "gauge",
    "With `--web.config.file`: 1 while what its files say is in force, 0 while they cannot be read or used.",
    "the program",
)
SELF_FAMILIES = (BUILD_INFO, SUCCESS, DURATION, AVAILABLE, DROPPED, WEB_CONFIG)


def self_groups(
    outcomes: Sequence[Outcome], dropped: dict[str, int], *, web_config: bool | None = None
) -> Groups:
    """What the program says about itself and its collectors."""
    return {
        BUILD_INFO: {(__version__, platform.python_version()): 1},
        SUCCESS: {(o.collector.name,): int(o.success) for o in outcomes},
        DURATION: {(o.collector.name,): o.seconds for o in outcomes if o.seconds is not None},
        AVAILABLE: {(o.collector.name, o.reason): int(not o.reason) for o in outcomes if o.success},
        DROPPED: {(name,): count for name, count in dropped.items()},
        WEB_CONFIG: {} if web_config is None else {(): int(web_config)},
    }


def process_registry() -> CollectorRegistry:
    """The standard `process_*` and `python_info` series, from prometheus_client."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


def escape(value: str) -> str:
    """A label value as the text formats want it between quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class TextRenderer:
    """Renders groups of samples, and remembers the text before the value of each series."""

    def __init__(self) -> None:
        self._heads: dict[Family, str] = {}
        self._prefixes: dict[Family, dict[tuple[str, ...], str]] = {}

    def render(self, parts: Iterable[Groups]) -> str:
        """Text format 0.0.4 of these groups. A family must not stand in two of them."""
        pieces: list[str] = []
        for groups in parts:
            for family, values in groups.items():
                if values:
                    pieces.append(self._heads.get(family) or self._head(family))
                    pieces.extend(self._lines(family, values))
        return "".join(pieces)

    def _head(self, family: Family) -> str:
        text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
        head = f"# HELP {family.name} {text}\n# TYPE {family.name} {family.kind}\n"
        self._heads[family] = head
        return head

    def _lines(self, family: Family, values: dict[tuple[str, ...], int | float]) -> list[str]:
        known = self._prefixes.setdefault(family, {})
        if len(known) > 2 * len(values) + 64:  # label sets of pods long gone
            known.clear()
        lines = []
        for labels, value in values.items():
            prefix = known.get(labels)
            if prefix is None:
                prefix = known[labels] = _prefix(family, labels)
            lines.append(f"{prefix}{value!r}\n")
        return lines


def _prefix(family: Family, labels: tuple[str, ...]) -> str:
    if not labels:
        return family.name + " "
    pairs = ",".join(f'{k}="{escape(v)}"' for k, v in zip(family.labels, labels, strict=True))
    return f"{family.name}{{{pairs}}} "


class _Given:
    """Groups as a prometheus_client collector."""

    def __init__(self, parts: Iterable[Groups]) -> None:
        self._parts = parts

    def collect(self) -> Iterable[Metric]:
        for groups in self._parts:
            for family, values in groups.items():
                if not values:
                    continue
                metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
                for labels, value in values.items():
                    metric.add_sample(family.name, dict(zip(family.labels, labels, strict=True)), value)
                yield metric


class Exposition:
    """Both formats of one daemon's scrapes.

    web_config: whether the files of `--web.config.file` are good, None without the flag.
    """

    def __init__(self, web_config: Callable[[], bool | None] = lambda: None) -> None:
        self._web_config = web_config
        self._process = process_registry()
        self._text = TextRenderer()

    def text(self, outcomes: Sequence[Outcome], dropped: dict[str, int]) -> bytes:
        """Text format 0.0.4."""
        parts = self._parts(outcomes, dropped)
        return self._text.render(parts).encode() + generate_latest(self._process)

    def openmetrics(self, outcomes: Sequence[Outcome], dropped: dict[str, int]) -> bytes:
        """OpenMetrics 1.0.0."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Given(self._parts(outcomes, dropped)))
        for collector in (ProcessCollector(registry=None), PlatformCollector(registry=None)):
            registry.register(collector)
        body: bytes = generate_openmetrics(registry)
        return body

    def _parts(self, outcomes: Sequence[Outcome], dropped: dict[str, int]) -> list[Groups]:
        own = self_groups(outcomes, dropped, web_config=self._web_config())
        return [*(o.groups for o in outcomes), own]
