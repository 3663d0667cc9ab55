"""YAML files whose every key is checked.

A misspelt key that is silently ignored would be found out at three in the
morning, or by an intruder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class FileError(ValueError):
    """One line that names the file, the key, and what is right."""


def load(text: str, name: str) -> object:
    """Data of the YAML text of the file `name`; raises FileError. A key given twice is an error."""
    import yaml  # noqa: PLC0415 - 3 MiB that only those pay who have such a file

    class Loader(yaml.SafeLoader):
        """Refuses what YAML lets pass: the same key twice."""

    Loader.add_constructor("tag:yaml.org,2002:map", _unique)
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except FileError as error:
        raise FileError(f"{name}: {error}") from error
    except (RecursionError, OverflowError, ValueError) as error:
        raise FileError(f"{name}: {type(error).__name__}: this is no configuration") from error
    except yaml.YAMLError as error:
        raise FileError(f"{name}{_place(error, text)}") from error


def _place(error: Any, text: str) -> str:
    if hasattr(error, "position"):  # a character that no YAML may have
        return f" line {text.count(chr(10), 0, error.position) + 1}: {error.reason}"
    mark = getattr(error, "problem_mark", None)
    where = f" line {mark.line + 1}" if mark else ""
    return f"{where}: {getattr(error, 'problem', None) or 'not YAML'}"


def _unique(loader: Any, node: Any) -> dict[object, object]:
    found: dict[object, object] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise FileError(f"line {key_node.start_mark.line + 1}: {key!r} must be a text")
        if key in found:
            raise FileError(f"line {key_node.start_mark.line + 1}: the key {key!r} stands here twice")
        found[key] = loader.construct_object(value_node, deep=True)
    return found


def mapping(data: object, where: str, allowed: Iterable[str] | None = None) -> dict[str, object]:
    """The mapping at `where`, whose keys are all among `allowed`; raises FileError."""
    if not isinstance(data, dict):
        raise FileError(f"{where}: must be a mapping of keys to values")
    for key in data:
        if allowed is not None and key not in tuple(allowed):
            raise FileError(f"{where}: unknown key {key!r}; there are {', '.join(allowed)}")
    return {str(key): value for key, value in data.items()}
