"""The losslessness audit: does an engine sample from the target distribution?

`audit_cell` asks this of any engine and any target, and needs numpy and scipy alone. `plan`, `run`,
`drafters` and `worker` ask it of gfcr's own engines; `target` reads models with torch.
"""

from gfcr.audit.asked import Asked, Prompts
from gfcr.audit.judge import audit_cell
from gfcr.audit.sampler import Target
from gfcr.certificate.cell import Cell, Verdict
from gfcr.certificate.record import certificate_for, covered, read
from gfcr.certificate.settings import SETTINGS, Setting

__all__ = [
    "SETTINGS",
    "Asked",
    "Cell",
    "Prompts",
    "Setting",
    "Target",
    "Verdict",
    "audit_cell",
    "certificate_for",
    "covered",
    "read",
]
