"""Settings of the kernel: one number, or one word out of several.

https://docs.kernel.org/admin-guide/sysctl/vm.html
https://docs.kernel.org/admin-guide/mm/transhuge.html

    always defer defer+madvise [madvise] never
    500
    performance

Files of many names look like this, so the errors leave it to the caller to say which it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError

#: Words become label values, so a file of another kind must not become hundreds of them.
_WORDS_LIMIT = 16
_WORD_LENGTH_LIMIT = 32


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting with the words it may have; `chosen` is one of them."""

    words: tuple[str, ...]
    chosen: str


def parse_choice(text: str) -> Choice:
    """The words of a setting, the chosen one in brackets. Raises ParseError.

    Sources: `/sys/kernel/mm/transparent_hugepage/{enabled,defrag,shmem_enabled}`.
    """
    words = text.split()
    chosen = [word[1:-1] for word in words if word[:1] == "[" and word[-1:] == "]" and len(word) > 2]
    if len(chosen) != 1 or len(words) > _WORDS_LIMIT or max(map(len, words)) > _WORD_LENGTH_LIMIT:
        raise ParseError("not a list of words with one in brackets")
    # dict keeps the order and makes each word appear once.
    every = dict.fromkeys(chosen[0] if word == f"[{chosen[0]}]" else word for word in words)
    return Choice(tuple(every), chosen[0])


def parse_number(text: str) -> int:
    """The only number of a file, which may be negative. Raises ParseError.

    Sources: `/proc/sys/vm/*`, `/sys/kernel/mm/transparent_hugepage/khugepaged/*`.
    """
    word = text.strip()
    # Longer than any 64-bit number; int() itself refuses only from 4,300 digits on.
    if len(word) > 20 or not word.removeprefix("-").isdecimal():
        raise ParseError("not one number")
    return int(word)


def parse_word(text: str) -> str:
    """The only word of a file. Raises ParseError.

    Source: `/sys/devices/system/cpu/cpufreq/policy*/scaling_governor`.
    """
    words = text.split()
    if len(words) != 1 or len(words[0]) > _WORD_LENGTH_LIMIT:
        raise ParseError("not one word")
    return words[0]
