"""The GPU library behind a process of its own."""
