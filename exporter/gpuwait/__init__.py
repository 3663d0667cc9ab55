"""gpuwait: says what the GPUs of a node are waiting for."""

__version__ = "0.1.0"
