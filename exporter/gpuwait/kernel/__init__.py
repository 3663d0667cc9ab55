"""Pure parsers, one per kernel file: text in, frozen dataclass out. No I/O, no clock."""
