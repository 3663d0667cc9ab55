"""Parsers of single lines of `/proc/PID/status` and `/proc/PID/limits` (proc_pid_limits(5)).

Uid:	1000	1000	1000	1000
Threads:	12
Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 524288               files
"""

from __future__ import annotations


def parse_threads(text: str) -> int | None:
    """Threads of a process from its `status`, None where the line is missing or no number."""
    for line in text.split("\n"):
        if line.startswith("Threads:"):
            word = line[8:].strip()
            return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None
    return None


def parse_user(text: str) -> str:
    """Real user id of a process from its `status`, empty where the line is missing or no number."""
    for line in text.split("\n"):
        if line.startswith("Uid:"):
            word = (line[4:].split() or [""])[0]
            return word if word.isascii() and word.isdigit() and len(word) < 11 else ""
    return ""


def parse_open_files_limit(text: str) -> int | None:
    """Soft limit of open files from `limits`, None where it is unlimited or missing."""
    for line in text.split("\n"):
        if line.startswith("Max open files"):
            words = line[14:].split()
            word = words[0] if words else ""
            return int(word) if word.isascii() and word.isdigit() and len(word) < 19 else None
    return None
