"""Devices of real bytes: `entresol device`, and `connect` for programs."""

from entresol.device.client import (
    Completion,
    Device,
    DeviceError,
    Ended,
    PortCosts,
    Shape,
    Transaction,
    TxLimits,
    connect,
)

__all__ = [
    "Completion",
    "Device",
    "DeviceError",
    "Ended",
    "PortCosts",
    "Shape",
    "Transaction",
    "TxLimits",
    "connect",
]
