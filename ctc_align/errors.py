"""One tree of errors. Every message says what was expected, what it got, in which input, and what to do.

CtcAlignError                 whatever went wrong; catch this one
├── UsageError                the call itself is wrong (exit 2): options that exclude each other, an unknown model
│   └── ConfigError           a settings file or a setting is wrong
├── InputError                the content of one utterance's input is wrong (exit 1); others are not affected
│   ├── AudioError            no such file, not audio, empty, silence only, NaN
│   ├── TranscriptError       empty, not UTF-8, broken subtitles
│   │   └── WrongFileError    not a transcript: a PDF, a recording, JSON (also a UsageError: exit 2)
│   ├── MissingTierError      an alignment without the tier that was asked for (also a UsageError: exit 2)
│   ├── LexiconError          a line of a dictionary that cannot be read, or phones the model does not have
│   ├── EmissionsError        log-probs of the wrong shape, with NaN or +inf, or a vocabulary that does not fit them
│   └── TooShortError         the transcript needs more frames than the audio has
├── OutputError               a file that already exists, a folder that cannot be written, a full disk
│   └── LostFolderError       the output folder of a run, or its journal, was removed or replaced while it worked
├── KernelError               wrong arguments to a kernel or to ctc_align.functional (also ValueError and RuntimeError)
└── BackendError              a backend or device that was asked for by name and cannot run

BackendWarning                there is a GPU whose kernels cannot run
"""

from __future__ import annotations


class CtcAlignError(Exception):
    """Base of all errors that this package raises on purpose."""


class UsageError(CtcAlignError):
    """The call itself is wrong: nothing was started."""


class ConfigError(UsageError):
    """A settings file or a setting is wrong; all faults are reported at once."""


class InputError(CtcAlignError):
    """The input of one utterance is wrong; other utterances are not affected."""


class AudioError(InputError):
    """Audio that cannot be used."""


class TranscriptError(InputError):
    """A transcript that cannot be used."""


class WrongFileError(TranscriptError, UsageError):
    """A file that is not a transcript was given as one."""


class MissingTierError(InputError, UsageError):
    """An alignment does not have the tier that was asked for."""


class LexiconError(InputError):
    """A pronunciation dictionary that cannot be used."""


class EmissionsError(InputError):
    """Log-probs that cannot be used."""


class TooShortError(InputError):
    """The transcript needs more frames than the audio has."""


class OutputError(CtcAlignError):
    """A result that cannot be written to its destination."""


class LostFolderError(OutputError):
    """The output folder of a run, or a file that it depends on there, was removed or replaced while it worked."""


class KernelError(CtcAlignError, ValueError, RuntimeError):
    """Wrong arguments to an array-level function; also what callers of torch expect to catch."""


class BackendError(CtcAlignError):
    """A backend or a device that was asked for by name cannot run here."""


class BackendWarning(UserWarning):
    """Work falls back to another backend than the best one for its device."""


def one_line(error: BaseException, most: int = 200) -> str:
    """Return an error's message, often that of a library, on one line of at most `most` characters.

    >>> one_line(ValueError("no\\n  such thing"))
    'no such thing'
    """
    return " ".join(str(error).split())[:most]
