"""The command line: `gpuwait serve|once|explain|check|whois|demo|metrics`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence

from gpuwait import __version__, logs, reference
from gpuwait.collectors import ALL
from gpuwait.config import Config, ConfigError
from gpuwait.flags import Parser, add_collector_flags, add_flags, build, strangers

WHAT = "Says what the GPUs of this node are waiting for."
PATHS = ("path.", "log.")
Command = Callable[[Config, argparse.Namespace], int]

log = logging.getLogger(__name__)


def parser() -> Parser:
    """The parser of every command."""
    top = Parser(prog="gpuwait", description=WHAT, allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"gpuwait {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, text: str, run: Command, *prefixes: str) -> Parser:
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.set_defaults(run=run)
        add_flags(command, prefixes)
        return command

    everything = (*PATHS, "collector.", "web.", "config.", "enable-")
    add_collector_flags(add("serve", "run the daemon", _serve, *everything), ALL)
    add_collector_flags(add("once", "print one scrape", _once, *PATHS, "collector."), ALL)
    _explain_flags(add("explain", "say what the GPUs wait for now", _explain, *PATHS, "config."))
    check = add("check", "say what this node offers, lacks and risks", _check, *PATHS, "collector.")
    add_collector_flags(check, ALL)
    whois = add("whois", "say which pod, container, Slurm job or service owns a process", _whois, *PATHS)
    whois.add_argument("--json", action="store_true", help="one JSON object a line")
    whois.add_argument("pids", metavar="PID", nargs="+")
    _demo_flags(add("demo", "replay an incident without a GPU; no NAME lists them", _demo, "log."))
    metrics = add("metrics", "print the metric reference", _metrics)
    metrics.add_argument("--format", choices=("markdown", "json"), default="markdown")
    return top


def _explain_flags(command: Parser) -> None:
    command.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    command.add_argument(
        "--for", dest="seconds", default="10s", metavar="TIME",
        help="how long to look where no daemon runs, or with --path flags (default 10s)",
    )  # fmt: skip
    command.add_argument("--url", help="a daemon's verdict (default http://127.0.0.1:9410/api/v1/verdict)")


def _demo_flags(command: Parser) -> None:
    command.add_argument("name", metavar="NAME", nargs="?", help="the incident")
    command.add_argument("--all", action="store_true", help="replay all: expected against found")
    command.add_argument(
        "--serve", action="store_true", help="serve it as live metrics, labelled as simulated"
    )
    command.add_argument(
        "--web.listen-address", dest="address", default="127.0.0.1:9410", metavar="HOST:PORT",
        help="address for --serve (default 127.0.0.1:9410)",
    )  # fmt: skip
    command.add_argument("--speed", default="1", metavar="X", help="times as fast as life (default 1)")
    command.add_argument(
        "--workload", metavar="W",
        help="who waits: slurm/JOB or pod/NAMESPACE/POD; the same for several makes them nodes of one job",
    )  # fmt: skip
    command.add_argument("--price", type=float, metavar="X", help="price of a GPU and hour, for what is lost")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status. 2 and one line on standard error for a wrong option."""
    try:
        parsed = parser().parse_args(arguments)
        config = build(parsed, os.environ, ALL)
        logs.set_up(config.log_level, config.log_format)
        if unknown := strangers(os.environ, ALL):
            log.warning("no options of this program: %s", " ".join(unknown)[:500])
        status: int = parsed.run(config, parsed)
        sys.stdout.flush()
    except ConfigError as error:
        sys.stderr.write(f"gpuwait: {error}\n")
        return 2
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # `gpuwait once | head`
            return 0
        sys.stderr.write(f"gpuwait: {error}\n")
        return 2
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

    return check.report(daemon.inspect(config), sys.stdout)


def _elsewhere(parsed: argparse.Namespace) -> bool:
    """Whether the command line names another host's files: then the daemon of this host is not meant."""
    return any(getattr(parsed, name) for name in ("path_procfs", "path_sysfs", "path_rootfs"))


def _explain(config: Config, parsed: argparse.Namespace) -> int:
    from gpuwait import daemon, explain  # noqa: PLC0415 - the other commands need none of it

    report, why = None, ""
    try:
        seconds = explain.parse_duration(parsed.seconds)
        if parsed.url or not _elsewhere(parsed):
            report = explain.ask(parsed.url or explain.DEFAULT_URL)
    except ValueError as error:
        raise ConfigError(f"explain: {error}") from error
    except explain.LockedError as error:
        why = str(error)
    if report is None and parsed.url:
        raise ConfigError(f"explain: --url: {why or f'no verdict at {parsed.url}'}")
    if report is None:
        asked = f"no daemon answers at {explain.DEFAULT_URL}"
        why = why or ("--path: the daemon of this host is not asked" if _elsewhere(parsed) else asked)
        sys.stderr.write(f"{why}\nlooking for {seconds:g} s without it\n")
        report = daemon.observe(config, seconds)
    if parsed.format == "json":
        sys.stdout.write(explain.as_json(report) + "\n")
    elif parsed.format == "markdown":
        sys.stdout.write(explain.markdown(report))
    else:
        sys.stdout.write(explain.text(report, color=explain.wants_color(sys.stdout, os.environ)))
    return 0


def _demo(_: Config, parsed: argparse.Namespace) -> int:
    from gpuwait import demo, demo_live, explain  # noqa: PLC0415 - the other commands need none of it

    try:
        if parsed.serve:
            if parsed.name is None or parsed.all:
                raise ConfigError("demo: --serve needs the NAME of one incident")
            return demo_live.serve(
                parsed.name, parsed.address, float(parsed.speed), parsed.workload, parsed.price
            )
        if parsed.all:
            return demo.run_all(sys.stdout)
        if parsed.name is None:
            demo.list_scenarios(sys.stdout)
            return 0
        return demo.run(parsed.name, sys.stdout, color=explain.wants_color(sys.stdout, os.environ))
    except (demo.UnknownScenarioError, ValueError) as error:
        raise ConfigError(f"demo: {error}") from error


def _whois(config: Config, parsed: argparse.Namespace) -> int:
    from gpuwait import daemon  # noqa: PLC0415 - the other commands need none of it
    from gpuwait.workload import whois  # noqa: PLC0415 - the other commands need none of it

    wrong = [p for p in parsed.pids if not (p.isascii() and p.isdigit())]
    if wrong:
        raise ConfigError(f"whois: {wrong[0]!r} is no process id")
    gpus_of = daemon.holders(config)
    pids = [int(p) for p in parsed.pids]
    with daemon.names(config, pids) as tree:
        return whois.run(config.host(), pids, as_json=parsed.json, out=sys.stdout, gpus_of=gpus_of, tree=tree)


def _metrics(_: Config, parsed: argparse.Namespace) -> int:
    make = reference.as_json if parsed.format == "json" else reference.markdown
    sys.stdout.write(make(ALL))
    return 0
