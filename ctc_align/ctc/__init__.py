"""The CTC functions of `ctc_align.functional` in PyTorch, which is imported here first, or refused
in one line."""

from __future__ import annotations

from ctc_align.extras import import_torch

import_torch("ctc_align.functional (like losses, pipelines and CTCLoss)")
