"""The error of every parser in this package."""


class ParseError(ValueError):
    """Kernel text that cannot be read at all. The message names what is read.

    The whole path is put before it by who opened the file (`gpuwait.faults`).
    """
