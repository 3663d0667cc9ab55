"""The configuration file: thresholds of the wait causes, and what a GPU costs.

    thresholds:
      compaction:
        stalls: 5          # in the unit of thresholds.DEFAULTS
    prices:                # per GPU and hour, in the site's currency
      default: 2.5
      models:
        NVIDIA H100 80GB HBM3: 4.1

Every key is checked, see strict_yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuwait.strict_yaml import FileError, load, mapping
from gpuwait.thresholds import DEFAULTS, Threshold

SettingsError = FileError

#: Nobody pays more for a GPU and hour, in any currency; beyond it is a slip.
DEAREST = 1e6


@dataclass(frozen=True, slots=True)
class Settings:
    """What the file says.

    thresholds: overrides of `thresholds.DEFAULTS`, in its units.
    price:      per GPU and hour where the model has none of its own; None without one.
    prices:     per GPU and hour by model, as the driver names it.
    """

    thresholds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    price: float | None = None
    prices: Mapping[str, float] = field(default_factory=dict)

    def price_of(self, model: str) -> float | None:
        """Price of a GPU of this model per hour, None where none is configured."""
        return self.prices.get(model, self.price)


def parse(text: str, name: str) -> Settings:
    """Settings from the text of the file `name`. Raises SettingsError."""
    data = load(text, name)
    top = mapping({} if data is None else data, name, ("thresholds", "prices"))
    prices = mapping(top.get("prices", {}), f"{name}: prices", ("default", "models"))
    models = mapping(prices.get("models", {}), f"{name}: prices.models")
    return Settings(
        thresholds=_thresholds(top.get("thresholds", {}), name),
        price=_price(prices["default"], f"{name}: prices.default") if "default" in prices else None,
        prices={model: _price(value, f"{name}: prices.models.{model}") for model, value in models.items()},
    )


def _thresholds(data: object, name: str) -> dict[tuple[str, str], float]:
    causes = sorted({cause for cause, _ in DEFAULTS})
    found = {}
    for cause, signals in mapping(data, f"{name}: thresholds", causes).items():
        known = [signal for c, signal in DEFAULTS if c == cause]
        for signal, value in mapping(signals, f"{name}: thresholds.{cause}", known).items():
            where = f"{name}: thresholds.{cause}.{signal}"
            found[cause, signal] = _within(value, DEFAULTS[cause, signal], where)
    return found


def _within(value: object, threshold: Threshold, where: str) -> float:
    unit = {"ratio": "a ratio", "per_second": "a number per second"}.get(
        threshold.unit, f"a number of {threshold.unit}" if threshold.unit == "seconds" else "a number"
    )
    right = f"must be {unit} from {threshold.low:g} to {threshold.high:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingsError(f"{where}: {right}, not {value!r}")
    if not threshold.low <= value <= threshold.high:
        raise SettingsError(f"{where}: {right}, not {str(value)[:20]}")
    return float(value)


def _price(value: object, where: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= DEAREST:  # type: ignore[operator]
        raise SettingsError(f"{where}: must be a price per GPU and hour, a number from 0 to {DEAREST:g}")
    return float(value)  # type: ignore[arg-type]
