"""Devices that a test can fill, as settings over a preset."""

from __future__ import annotations

SMALL = (
    "nand.channels=2",
    "nand.blocks_per_plane=64",
    "nand.pages_per_block=64",
    "ftl.over_provisioning=25%",
    "ssd.dram=8MiB",
    "ssd.log.size=4MiB",
)
BUSY = (
    "nand.channels=2",
    "nand.chips_per_channel=2",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=64",
    "nand.pages_per_block=64",
    "ftl.over_provisioning=30%",
    "ssd.dram=5MiB",
    "ssd.log.size=1MiB",
)
"""64 MiB of flash, so that compaction and GC are at work."""
LITTLE = (
    "nand.channels=2",
    "nand.chips_per_channel=2",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=64",
    "nand.pages_per_block=16",
    "ftl.over_provisioning=25%",
    "ssd.dram=4MiB",
)
"""A device of 12 MiB."""
