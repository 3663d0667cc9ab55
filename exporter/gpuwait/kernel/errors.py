"""The error of every parser in this package."""


class ParseError(ValueError):
    """Kernel text that cannot be read at all. The message names the file and, where known, the line."""
