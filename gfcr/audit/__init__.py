"""The losslessness audit: does an engine sample from the target distribution?

Everything but `target`, `drafters` and `worker` is plain numpy and works on any engine.
"""

from gfcr.audit.judge import audit_cell
from gfcr.audit.rounds import Asked
from gfcr.audit.sampler import Target
from gfcr.certificate.cell import Cell, Prompts, Verdict
from gfcr.certificate.record import Certificate, certificate_for, covered, read, write
from gfcr.certificate.settings import SETTINGS, Setting

__all__ = [
    "SETTINGS",
    "Asked",
    "Cell",
    "Certificate",
    "Prompts",
    "Setting",
    "Target",
    "Verdict",
    "audit_cell",
    "certificate_for",
    "covered",
    "read",
    "write",
]
