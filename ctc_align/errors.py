"""One tree of errors.

Every message says what was expected, what it got, in which input, and what to do.

CtcAlignError                 the base of all errors; catch this one
├── UsageError                the call itself is wrong (exit 2): options that exclude each other, an unknown model
│   ├── ConfigError           a settings file or a setting is wrong
│   └── MissingExtraError     the call needs an extra that is not installed (also an ImportError)
├── InputError                the content of one utterance's input is wrong (exit 1); others are not affected
│   ├── AudioError            no such file, not audio, empty, silence only, NaN
│   ├── TranscriptError       empty, not UTF-8, broken subtitles
│   │   └── WrongFileError    not a transcript: a PDF, a recording, JSON (also a UsageError: exit 2)
│   ├── MissingTierError      an alignment without the requested tier (also a UsageError: exit 2)
│   ├── LexiconError          a line of a dictionary that cannot be read, or phones that the model lacks
│   ├── EmissionsError        log-probs of the wrong shape, with NaN or +inf, or a vocabulary that does not fit them
│   │   └── WrongArrayError   not log-probs but probabilities, or another blank (also a UsageError: exit 2)
│   └── TooShortError         the transcript needs more frames than the audio has
├── OutputError               a file that already exists, a folder that cannot be written, a full disk
│   └── LostFolderError       the output folder of a run, or its journal, was removed or replaced while it worked
├── KernelError               wrong arguments to a kernel or to ctc_align.functional (also ValueError and RuntimeError)
└── BackendError              a requested backend or device that cannot run

BackendWarning                there is a GPU, but its kernels cannot run
"""

from __future__ import annotations

import logging

NOTE = 25
"""The level of log records that say what was chosen without being asked for, and is right as far as
anyone can tell."""
logging.addLevelName(NOTE, "NOTE")


class CtcAlignError(Exception):
    """Base of all errors that this package raises on purpose."""


class UsageError(CtcAlignError):
    """The call itself is wrong: nothing was started."""


class ConfigError(UsageError):
    """A settings file or a setting is wrong; all faults are reported at once."""


class MissingExtraError(UsageError, ImportError):
    """The call needs an extra that is not installed; also an ImportError."""


class InputError(CtcAlignError):
    """The input of one utterance is wrong; other utterances are not affected."""


class AudioError(InputError):
    """Audio that cannot be used."""


class TranscriptError(InputError):
    """A transcript that cannot be used."""


class WrongFileError(TranscriptError, UsageError):
    """A file that is not a transcript was given as one."""


class MissingTierError(InputError, UsageError):
    """An alignment does not have the requested tier."""


class LexiconError(InputError):
    """A pronunciation dictionary that cannot be used."""


class EmissionsError(InputError):
    """Log-probs that cannot be used."""


class WrongArrayError(EmissionsError, UsageError):
    """An array that is not what the call says: it has no log-probs, or a different blank."""


class TooShortError(InputError):
    """The transcript needs more frames than the audio has."""


class OutputError(CtcAlignError):
    """A result that cannot be written to its destination."""


class LostFolderError(OutputError):
    """The output folder of a run was removed or replaced while it worked.

    The same holds for a file there that the run depends on.
    """


class KernelError(CtcAlignError, ValueError, RuntimeError):
    """Wrong arguments to an array-level function.

    It is also a ValueError and a RuntimeError, as in torch.
    """


class BackendError(CtcAlignError):
    """A requested backend or device cannot run here."""


class BackendWarning(UserWarning):
    """The work falls back to a backend that is not the best one for its device."""


def one_line(error: BaseException, most: int = 200) -> str:
    """Return the message of an error on one line of at most `most` characters.

    >>> one_line(ValueError("no\\n  such thing"))
    'no such thing'
    """
    return " ".join(str(error).split())[:most]
