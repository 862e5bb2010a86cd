"""Options that the commands share, with their help."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME|PATH", help="Acoustic model.", show_default="english")
]
Lexicon = Annotated[
    str | None,
    typer.Option(
        "--lexicon",
        metavar="FILE",
        help="Pronunciations in MFA dictionary format; they come first.",
        show_default="in the model's folder",
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda|cuda:N|mps", help="Where the model runs.")]
Backend = Annotated[
    str, typer.Option("--backend", metavar="auto|reference|cpu|gpu", help="Which kernels compute the alignment.")
]
Formats = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="LIST",
        help="Output formats, comma-separated, out of json, ctm, textgrid, srt, vtt, tsv and audacity.",
        show_default="json,ctm,textgrid",
    ),
]
OutDir = Annotated[
    str | None,
    typer.Option("--out-dir", metavar="DIR", help="Where the outputs go.", show_default="the current directory"),
]
Stdout = Annotated[
    bool, typer.Option("--stdout", help="Write one format (json unless --format says which) to standard output.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace outputs that exist. Inputs are never replaced.")]
ConfigFile = Annotated[
    str | None,
    typer.Option("--config", metavar="NAME|FILE.toml", help="Settings from a file; the command line wins."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting, as in a settings file; may be given often."),
]
Language = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE",
        help="Language of the transcript (en, deu), and of models with a part for each.",
        show_default="the model's, else en",
    ),
]
Romanize = Annotated[
    bool | None,
    typer.Option(
        "--romanize/--no-romanize",
        help="Write words of any script in Latin letters, for models that know no other (needs the extra [romanize]).",
        show_default="no-romanize",
    ),
]
WordsBy = Annotated[
    str | None,
    typer.Option(
        "--words-by",
        metavar="auto|spaces|characters",
        help="What parts words; auto: spaces, and in scripts without spaces each character.",
        show_default="auto",
    ),
]
Unknown = Annotated[
    str | None,
    typer.Option(
        "--unknown",
        metavar="wildcard|skip|error",
        help="Letters that the model lacks: any speech stands for them (for times only), left out, or refused.",
        show_default="wildcard",
    ),
]
Revision = Annotated[
    str | None,
    typer.Option("--revision", metavar="NAME", help="For hf:ORG/NAME: branch, tag or commit.", show_default="main"),
]
CacheDir = Annotated[
    str | None, typer.Option("--cache-dir", metavar="DIR", help="Where models that are downloaded are kept.")
]
Vocab = Annotated[
    str | None,
    typer.Option(
        "--vocab", metavar="FILE", help="For log-probs: one token a line, Kaldi 'token id', or a JSON list or object."
    ),
]
FrameShift = Annotated[
    float | None, typer.Option("--frame-shift", metavar="SECONDS", help="For log-probs: time from frame to frame.")
]
Blank = Annotated[
    str | None,
    typer.Option("--blank", metavar="TOKEN|INDEX", help="For log-probs: the blank.", show_default="index 0"),
]
Times = Annotated[
    str | None,
    typer.Option("--times", metavar="utterance|recording", help="Where times count from.", show_default="utterance"),
]
Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="bare|written",
        help="Words in CTM and TextGrid without their outer punctuation, or as written.",
        show_default="bare",
    ),
]
Edges = Annotated[
    str | None,
    typer.Option(
        "--edges",
        metavar="auto|spikes|occupancy|calibrated|refined",
        help="How edges are drawn; auto is the best that the model has.",
        show_default="auto",
    ),
]
CalibrationFile = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        metavar="FILE",
        help="What `ctc-align calibrate` wrote for this model.",
        show_default="in the model's folder",
    ),
]
MinConfidence = Annotated[
    float | None,
    typer.Option(
        "--min-confidence",
        metavar="0…1",
        help="Mark words with less; exit 3 if there are any, or speech that no word explains.",
        show_default="none are marked",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more; show where an error came from.")]
