"""Run the command line: `python -m ctc_align`."""

from __future__ import annotations

from ctc_align.threads import begin_process


def main() -> None:
    """Run the program `ctc-align`."""
    begin_process()
    from ctc_align.cli import main

    main()


if __name__ == "__main__":
    main()
