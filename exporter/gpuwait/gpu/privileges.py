"""Gives up capabilities for good, before the vendor's library is loaded: it reads GPUs without any.

capabilities(7): with no_new_privs set, no program that is started later gets them back, not even as root.
Without it, root would get them back; and NVIDIA's library may have to run its setuid helper that makes the
device files, so there everything stays as it is.
"""

from __future__ import annotations

import ctypes
import platform

_PR_GET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 39, 47, 4
#: linux/capability.h: version 3 has two words of 32 bits for each set.
_VERSION = 0x20080522
#: System call number of capset; glibc has a wrapper, musl has none.
_CAPSET = {"x86_64": 126, "aarch64": 91}


def give_up() -> bool:
    """Clear ambient, effective, permitted and inheritable capabilities; tell whether that was done.

    False where the process may gain privileges, where a filter of system calls refuses, or on a machine
    whose system call is not known.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    number = _CAPSET.get(platform.machine())
    if number is None or libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        return False
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    done: int = libc.syscall(number, header, sets)
    return done == 0
