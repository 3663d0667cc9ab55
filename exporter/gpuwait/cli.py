"""The command line: `gpuwait serve|once|check|whois|metrics`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from gpuwait import __version__, logs, reference
from gpuwait.collectors import ALL
from gpuwait.config import Config, ConfigError
from gpuwait.flags import Parser, add_collector_flags, add_flags, build

WHAT = "Says what the GPUs of this node are waiting for."
PATHS = ("path.", "log.")


def parser() -> Parser:
    """The parser of every command."""
    top = Parser(
        prog="gpuwait", description="Says what the GPUs of this node are waiting for.", allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"gpuwait {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, text: str, run: Callable[[Config, argparse.Namespace], int], *prefixes: str) -> Parser:
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.set_defaults(run=run)
        add_flags(command, prefixes)
        return command

    everything = (*PATHS, "collector.", "web.")
    add_collector_flags(add("serve", "run the daemon", _serve, *everything), ALL)
    add_collector_flags(add("once", "print one scrape", _once, *PATHS, "collector."), ALL)
    add_collector_flags(
        add(
            "check",
            "say what this node offers, lacks and risks",
            _check,
            *PATHS,
            "collector.",
        ),
        ALL,
    )
    whois = add("whois", "say which pod, container, Slurm job or service owns a process", _whois, *PATHS)
    whois.add_argument("--json", action="store_true", help="one JSON object a line")
    whois.add_argument("pids", metavar="PID", nargs="+")
    metrics = add("metrics", "print the metric reference", _metrics)
    metrics.add_argument("--format", choices=("markdown", "json"), default="markdown")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status. 2 and one line on standard error for a wrong option."""
    try:
        parsed = parser().parse_args(arguments)
        config = build(parsed, os.environ, ALL)
        logs.set_up(config.log_level, config.log_format)
        status: int = parsed.run(config, parsed)
    except ConfigError as error:
        sys.stderr.write(f"gpuwait: {error}\n")
        return 2
    except BrokenPipeError:  # `gpuwait once | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return status


def _serve(config: Config, _: argparse.Namespace) -> int:
    from gpuwait import daemon  # noqa: PLC0415 - the other commands need no server

    return daemon.serve(config)


def _once(config: Config, _: argparse.Namespace) -> int:
    from gpuwait import daemon  # noqa: PLC0415 - the other commands need no server

    sys.stdout.write(daemon.once(config).decode())
    return 0


def _check(config: Config, _: argparse.Namespace) -> int:
    from gpuwait import check, daemon  # noqa: PLC0415 - the other commands need none of it

    return check.report(daemon.gather_once(config)[0], sys.stdout)


def _whois(config: Config, parsed: argparse.Namespace) -> int:
    from gpuwait.workload import whois  # noqa: PLC0415 - the other commands need none of it

    wrong = [p for p in parsed.pids if not (p.isascii() and p.isdigit())]
    if wrong:
        raise ConfigError(f"whois: {wrong[0]!r} is no process id")
    return whois.run(config.host(), [int(p) for p in parsed.pids], as_json=parsed.json, out=sys.stdout)


def _metrics(_: Config, parsed: argparse.Namespace) -> int:
    make = reference.as_json if parsed.format == "json" else reference.markdown
    sys.stdout.write(make(ALL))
    return 0
