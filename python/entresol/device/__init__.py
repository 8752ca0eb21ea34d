"""Devices of real bytes: `entresol device`."""
