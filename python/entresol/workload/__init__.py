"""The programs of the SkyByte paper's Table I: listed, captured, and set beside the table."""

from entresol.workload.capture_cache import Recording, Wanted, capture, record
from entresol.workload.catalogue import Program, programs

__all__ = ["Program", "Recording", "Wanted", "capture", "programs", "record"]
