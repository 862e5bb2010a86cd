"""The CTC functions of `ctc_align.functional` in PyTorch.

PyTorch is imported here first; where it is missing, the error says so in one line.
"""

from __future__ import annotations

from ctc_align.extras import import_torch

import_torch("ctc_align.functional (like losses, pipelines and CTCLoss)")
