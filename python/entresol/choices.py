"""Words of which one is chosen: by options of commands, by keys of sweeps, by arguments."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """How cores are simulated."""

    DETAILED = "detailed"
    FAST = "fast"


class Dependencies(StrEnum):
    """How accesses of a trace without registers depend on each other."""

    NONE = "none"
    CHAIN = "chain"


class Scale(StrEnum):
    """How large a program's data are: a sixteenth of Table I, or all."""

    SMALL = "small"
    PAPER = "paper"


class Shared(StrEnum):
    """What a gain is shared out among."""

    SWITCHES = "switches"
    MECHANISMS = "mechanisms"


class Captures(StrEnum):
    """Which captures of the store are cleared."""

    UNUSED = "unused"
    ALL = "all"


class Pace(StrEnum):
    """Whose time the clients of a served device wait for: the host's, or the device's."""

    NONE = "none"
    REAL = "real"


class Pattern(StrEnum):
    """Requests made up for a device."""

    RANDREAD = "randread"
    RANDWRITE = "randwrite"
    SEQREAD = "seqread"
    SEQWRITE = "seqwrite"
    RANDRW = "randrw"


class Port(StrEnum):
    """How requests come to a device: lines of 64 bytes, or pages."""

    LINE = "line"
    BLOCK = "block"
