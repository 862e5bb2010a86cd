"""Importing this module imports PyTorch, or says in one line which extra brings it.

`ctc_align.functional` and `ctc_align.losses` import it first: who calls them has PyTorch, perhaps an old one.
"""

from __future__ import annotations

from ctc_align.extras import import_torch

import_torch("ctc_align.functional (like losses and CTCLoss)")
