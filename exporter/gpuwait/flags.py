"""Flags and `GPUWAIT_*` variables, made from the fields of Config."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, NoReturn

from gpuwait.collector import Collector
from gpuwait.config import Config, ConfigError


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError instead of printing the usage."""
        raise ConfigError(message)


def add_flags(parser: argparse.ArgumentParser, prefixes: tuple[str, ...]) -> None:
    """Add the flags whose names begin with one of these prefixes."""
    for item in fields(Config):
        meta = item.metadata
        if not meta or not meta["flag"].startswith(prefixes):
            continue
        variable = f"[{env_name(meta['flag'])}]"
        if isinstance(item.default, bool):
            parser.add_argument(
                f"--{meta['flag']}", dest=item.name, action="store_true", default=None,
                help=f"{meta['help']} {variable}",
            )  # fmt: skip
            continue
        shown = _shown(item.default)
        parser.add_argument(
            f"--{meta['flag']}", dest=item.name, metavar=meta["metavar"], choices=meta["choices"],
            action="append" if meta["repeat"] else "store", default=None,
            help=f"{meta['help']}{f' (default {shown})' if shown else ''} {variable}".replace("%", "%%"),
        )  # fmt: skip


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return " ".join(default)
    return default.pattern if isinstance(default, re.Pattern) else "" if default is None else str(default)


def add_collector_flags(parser: argparse.ArgumentParser, collectors: Iterable[Collector]) -> None:
    """Add `--collector.NAME` and `--no-collector.NAME` for each."""
    for c in collectors:
        state = "on" if c.enabled else "off"
        parser.add_argument(
            f"--collector.{c.name}", dest=f"collector:{c.name}", action="store_true", default=None,
            help=f"{c.help} (default {state}) [{env_name(f'collector.{c.name}')}]".replace("%", "%%"),
        )  # fmt: skip
        parser.add_argument(
            f"--no-collector.{c.name}", dest=f"collector:{c.name}", action="store_false", default=None,
            help=argparse.SUPPRESS,
        )  # fmt: skip


def env_name(flag: str) -> str:
    """Name of the environment variable of a flag: `web.listen-address` -> GPUWAIT_WEB_LISTEN_ADDRESS."""
    return "GPUWAIT_" + re.sub("[.-]", "_", flag).upper()


def _boolean(text: str) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if text.strip().lower() not in words:
        raise ValueError(f"{text!r} is neither true nor false")
    return words[text.strip().lower()]


def build(arguments: argparse.Namespace, env: Mapping[str, str], known: Iterable[Collector]) -> Config:
    """The options of this run: flag, else variable, else default. Raises ConfigError."""
    values: dict[str, Any] = {}
    for item in fields(Config):
        meta = item.metadata
        if not meta:
            continue
        given = getattr(arguments, item.name, None)
        where, text = f"--{meta['flag']}", given
        if given is None and env.get(env_name(meta["flag"]), "") != "":
            where, text = env_name(meta["flag"]), env[env_name(meta["flag"])]
        if text is None:
            continue
        values[item.name] = _value(item.default, meta, where, text)
    config = Config(**values)
    return Config(**values, collectors=_chosen(arguments, env, known, bare=config.disable_defaults))


def strangers(env: Mapping[str, str], known: Iterable[Collector]) -> list[str]:
    """Variables that look like options and are none, sorted.

    Kubernetes gives every pod variables of the services of its namespace: those of one called gpuwait are
    left out.
    """
    names = {env_name(item.metadata["flag"]) for item in fields(Config) if item.metadata}
    names |= {env_name(f"collector.{collector.name}") for collector in known}
    service = re.compile(r"GPUWAIT_(.+_)?(SERVICE_(HOST|PORT.*)|PORT(_\d+_.*)?)")
    mine = (name for name in env if name.startswith("GPUWAIT_") and name not in names)
    return sorted(name for name in mine if not service.fullmatch(name))


def _value(default: Any, meta: Mapping[str, Any], where: str, text: Any) -> Any:
    try:
        if isinstance(default, bool):
            return text if isinstance(text, bool) else _boolean(text)
        if meta["repeat"]:
            texts = text if isinstance(text, list) else text.replace(",", " ").split()
            return tuple(meta["parse"](t) for t in texts)
        if meta["choices"] and text not in meta["choices"]:
            raise ValueError(f"{text!r} is not one of {', '.join(meta['choices'])}")
        return meta["parse"](text)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def _chosen(
    arguments: argparse.Namespace, env: Mapping[str, str], known: Iterable[Collector], *, bare: bool
) -> tuple[Collector, ...]:
    chosen = []
    for collector in known:
        wanted = getattr(arguments, f"collector:{collector.name}", None)
        name = env_name(f"collector.{collector.name}")
        if wanted is None and env.get(name, "") != "":
            try:
                wanted = _boolean(env[name])
            except ValueError as error:
                raise ConfigError(f"{name}: {error}") from error
        if wanted is None:
            wanted = collector.enabled and not bare
        if wanted:
            chosen.append(collector)
    return tuple(chosen)
