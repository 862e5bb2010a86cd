"""python -m ctc_align"""

from __future__ import annotations

from ctc_align.cli import main

if __name__ == "__main__":
    main()
