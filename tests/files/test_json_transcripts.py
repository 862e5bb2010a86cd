"""JSON of other programs is read with its times and speakers, each dialect in two or more
layouts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cue_lines import cue_lines
from rows import over_rows

from ctc_align.errors import TranscriptError, WrongFileError
from ctc_align.files.transcripts import parse_transcript


def aws_item(content: str, start: str = "", end: str = "", **more: str) -> dict[str, Any]:
    kind = "pronunciation" if start else "punctuation"
    times = {"start_time": start, "end_time": end} if start else {}
    return {
        "type": kind,
        "alternatives": [{"confidence": "0.9", "content": content}],
        **times,
        **more,
    }


AWS_ITEMS = [
    aws_item("Well", "0.5", "0.8"),
    aws_item(","),
    aws_item("yes", "0.9", "1.5"),
    aws_item("."),
    aws_item("No", "2.0", "2.4"),
]
AWS = {
    "jobName": "a",
    "results": {"transcripts": [{"transcript": "Well, yes. No"}], "items": AWS_ITEMS},
}
AWS_SPEAKERS = {
    "results": {
        **AWS["results"],
        "speaker_labels": {
            "speakers": 2,
            "segments": [
                {
                    "start_time": "0.5",
                    "end_time": "1.5",
                    "speaker_label": "spk_0",
                    "items": [
                        {"start_time": "0.5", "end_time": "0.8", "speaker_label": "spk_0"},
                        {"start_time": "0.9", "end_time": "1.5", "speaker_label": "spk_0"},
                    ],
                },
                {
                    "start_time": "2.0",
                    "end_time": "2.4",
                    "speaker_label": "spk_1",
                    "items": [{"start_time": "2.0", "end_time": "2.4", "speaker_label": "spk_1"}],
                },
            ],
        },
    }
}
AWS_SEGMENTS = {
    "results": {
        **AWS["results"],
        "audio_segments": [
            {
                "id": 0,
                "transcript": "Well, yes.",
                "start_time": "0.5",
                "end_time": "1.5",
                "items": [0, 1, 2, 3],
                "speaker_label": "spk_0",
            },
            {
                "id": 1,
                "transcript": "No",
                "start_time": "2.0",
                "end_time": "2.4",
                "items": [4],
                "speaker_label": "spk_1",
            },
        ],
    }
}
AWS_CHANNELS = {
    "results": {
        **AWS["results"],
        "channel_labels": {
            "number_of_channels": 2,
            "channels": [
                {"channel_label": "ch_0", "items": AWS_ITEMS[:4]},
                {"channel_label": "ch_1", "items": [aws_item("Oh", "0.7", "0.9")]},
            ],
        },
    }
}
AWS_CALL = {
    "Transcript": [
        {
            "Content": "Hello.",
            "BeginOffsetMillis": 500,
            "EndOffsetMillis": 1500,
            "ParticipantRole": "AGENT",
        }
    ]
}
JAPANESE = {
    "results": {
        "transcripts": [{"transcript": "今日は。はい"}],
        "items": [
            aws_item("今日", "0.5", "0.8"),
            aws_item("は", "0.8", "1.0"),
            aws_item("。"),
            aws_item("はい", "1.2", "1.5"),
        ],
    }
}


def google(*words: tuple[str, Any, Any], **more: Any) -> dict[str, Any]:
    rows = [
        {"word": word, "startTime": start, "endTime": end, **more} for word, start, end in words
    ]
    return {"alternatives": [{"transcript": " ".join(word for word, _, _ in words), "words": rows}]}


GOOGLE = {
    "results": [
        google(("well", "0.500s", "0.900s"), ("yes.", "0.900s", "1.500s")),
        {**google(("No", "2s", "2.400s")), "resultEndTime": "2.500s", "languageCode": "en-us"},
    ]
}
GOOGLE_PROTOBUF = {
    "name": "1",
    "done": True,
    "response": {
        "results": [
            google(
                ("well", {"nanos": 500000000}, {"seconds": "1", "nanos": 500000000}),
                ("no", {"seconds": "2"}, {"seconds": "2", "nanos": 400000000}),
            )
        ]
    },
}
GOOGLE_TAGS = {
    "results": [
        google(("well", "0.5s", "0.9s")),
        google(("no", "2s", "2.4s")),
        {
            "alternatives": [
                {
                    "words": [
                        {"word": "well", "startTime": "0.5s", "endTime": "0.9s", "speakerTag": 1},
                        {"word": "no", "startTime": "2s", "endTime": "2.4s", "speakerTag": 2},
                    ]
                }
            ]
        },
    ]
}
GOOGLE_V2 = {
    "results": [
        {
            "alternatives": [
                {
                    "transcript": "Well, yes.",
                    "words": [
                        {
                            "word": "Well,",
                            "startOffset": "0.5s",
                            "endOffset": "0.9s",
                            "speakerLabel": "1",
                        },
                        {
                            "word": "yes.",
                            "startOffset": "0.9s",
                            "endOffset": "1.5s",
                            "speakerLabel": "2",
                        },
                    ],
                }
            ],
            "channelTag": 1,
        },
        {"channelTag": 2},
    ]
}
GOOGLE_CHANNELS = {
    "results": [
        {"alternatives": [{"transcript": "well yes"}], "channelTag": 1, "resultEndTime": "1.5s"},
        {"resultEndTime": "1.7s"},
        {"alternatives": [{"transcript": " oh"}], "channelTag": 2, "resultEndTime": "2.4s"},
    ]
}

AZURE = {
    "durationInTicks": 3e7,
    "combinedRecognizedPhrases": [{"display": "Well, yes. No."}],
    "recognizedPhrases": [
        {
            "recognitionStatus": "Success",
            "channel": 0,
            "speaker": 1,
            "offset": "PT0.5S",
            "offsetInTicks": 5000000.0,
            "durationInTicks": 1e7,
            "nBest": [{"lexical": "well yes", "display": "Well, yes.", "words": []}],
        },
        {"recognitionStatus": "Failure", "channel": 0},
        {
            "recognitionStatus": "Success",
            "channel": 0,
            "speaker": 2,
            "offsetInTicks": 2e7,
            "durationInTicks": 4000000.0,
            "nBest": [{"lexical": "no", "display": "No."}],
        },
    ],
}
AZURE_DETAILED = [
    {
        "Id": "a",
        "RecognitionStatus": "Success",
        "Offset": 5000000,
        "Duration": 10000000,
        "DisplayText": "Well.",
        "NBest": [{"Lexical": "well", "Display": "Well, yes."}],
    },
    {"RecognitionStatus": "Success", "Offset": 20000000, "Duration": 4000000, "DisplayText": "No."},
]
AZURE_FAST = {
    "durationMilliseconds": 3000,
    "combinedPhrases": [{"text": "Well, yes."}],
    "phrases": [
        {
            "channel": 0,
            "offsetMilliseconds": 500,
            "durationMilliseconds": 1000,
            "text": "Well, yes.",
            "locale": "en-US",
        },
        {"channel": 1, "offsetMilliseconds": 700, "durationMilliseconds": 200, "text": "Oh."},
    ],
}

DEEPGRAM_WORDS = [
    {"word": "well", "start": 0.5, "end": 0.9, "punctuated_word": "Well,", "speaker": 0},
    {"word": "yes", "start": 0.9, "end": 1.5, "punctuated_word": "yes.", "speaker": 0},
    {"word": "no", "start": 2.0, "end": 2.4, "punctuated_word": "No.", "speaker": 1},
]
DEEPGRAM = {
    "metadata": {"channels": 1},
    "results": {
        "channels": [{"alternatives": [{"transcript": "Well, yes. No.", "words": DEEPGRAM_WORDS}]}]
    },
}
DEEPGRAM_UTTERANCES = {
    "results": {
        **DEEPGRAM["results"],
        "utterances": [
            {
                "start": 0.5,
                "end": 1.5,
                "channel": 0,
                "transcript": "Well, yes.",
                "words": [],
                "speaker": 0,
            },
            {"start": 2.0, "end": 2.4, "channel": 0, "transcript": "No.", "speaker": 1},
        ],
    }
}
DEEPGRAM_PARAGRAPHS = {
    "results": {
        "channels": [
            {
                "alternatives": [
                    {
                        "words": DEEPGRAM_WORDS,
                        "paragraphs": {
                            "paragraphs": [
                                {
                                    "speaker": 0,
                                    "sentences": [{"text": "Well, yes.", "start": 0.5, "end": 1.5}],
                                },
                                {
                                    "speaker": 1,
                                    "sentences": [{"text": "No.", "start": 2.0, "end": 2.4}],
                                },
                            ]
                        },
                    }
                ]
            }
        ]
    }
}
DEEPGRAM_CHANNELS = {
    "results": {
        "channels": [
            {
                "alternatives": [
                    {
                        "words": [
                            {"word": "well", "start": 0.5, "end": 0.9},
                            {"word": "yes", "start": 0.9, "end": 1.5},
                        ]
                    }
                ]
            },
            {"alternatives": [{"words": [{"word": "oh", "start": 0.7, "end": 0.9}]}]},
        ]
    }
}


def rev(
    *elements: tuple[Any, ...], names: tuple[str, str] = ("ts", "end_ts")
) -> list[dict[str, Any]]:
    return [
        {"type": "text" if times else "punct", "value": value, **dict(zip(names, times))}
        for value, *times in elements
    ]


REV = {
    "monologues": [
        {
            "speaker": 0,
            "elements": rev(("Well", 0.5, 0.9), (",",), (" ",), ("yes", 0.9, 1.5), (".",)),
        },
        {"speaker": 1, "elements": rev(("No", 2.0, 2.4), (".",))},
    ]
}
REV_HUMAN = {
    "speakers": [{"id": 0, "name": "Ann"}, {"id": 1, "name": "Ben"}],
    "monologues": [
        {
            "speaker": 0,
            "elements": rev(
                ("Well, yes.", "00:00:00,500", "00:00:01,500"), names=("timestamp", "end_timestamp")
            ),
        },
        {
            "speaker": 1,
            "elements": rev(
                ("No.", "00:00:02,000", "00:00:02,400"), names=("timestamp", "end_timestamp")
            ),
        },
    ],
}
ASSEMBLY_WORDS = [
    {"text": "Well,", "start": 500, "end": 900},
    {"text": "yes.", "start": 900, "end": 1500},
    {"text": "No.", "start": 2000, "end": 2400},
]
ASSEMBLY = {
    "id": "a",
    "status": "completed",
    "text": "Well, yes. No.",
    "words": ASSEMBLY_WORDS,
    "utterances": None,
}
ASSEMBLY_SPEAKERS = {
    **ASSEMBLY,
    "utterances": [
        {"speaker": "A", "start": 500, "end": 1500, "text": "Well, yes."},
        {"speaker": "B", "start": 2000, "end": 2400, "text": "No."},
    ],
}
ASSEMBLY_SENTENCES = {
    "id": "a",
    "audio_duration": 3,
    "sentences": [{"text": "Well, yes.", "start": 500, "end": 1500}],
}
GENTLE = {
    "transcript": '"Well, er, yes."\nNo.',
    "words": [
        {
            "case": "success",
            "word": "Well",
            "alignedWord": "well",
            "start": 0.5,
            "end": 0.9,
            "startOffset": 1,
            "endOffset": 5,
        },
        {"case": "not-found-in-audio", "word": "er", "startOffset": 7, "endOffset": 9},
        {
            "case": "success",
            "word": "yes",
            "start": 1.0,
            "end": 1.5,
            "startOffset": 11,
            "endOffset": 14,
        },
        {
            "case": "success",
            "word": "No",
            "start": 2.0,
            "end": 2.4,
            "startOffset": 17,
            "endOffset": 19,
        },
    ],
}
AENEAS = {
    "fragments": [
        {
            "begin": "0.500",
            "end": "1.500",
            "id": "f1",
            "language": "eng",
            "lines": ["Well,", "yes."],
            "children": [],
        },
        {"begin": "2.000", "end": "2.400", "id": "f2", "lines": ["No."]},
    ]
}
YOUTUBE = {
    "wireMagic": "pb3",
    "events": [
        {"tStartMs": 0, "dDurationMs": 9000, "id": 1, "wpWinPosId": 1},
        {
            "tStartMs": 500,
            "dDurationMs": 1000,
            "wWinId": 1,
            "segs": [{"utf8": "well"}, {"utf8": " yes", "tOffsetMs": 400}],
        },
        {"tStartMs": 1490, "dDurationMs": 10, "aAppend": 1, "segs": [{"utf8": "\n"}]},
        {"tStartMs": 2000, "segs": [{"utf8": "no"}]},
    ],
}
YOUTUBE_LIST = [
    {"text": "well yes", "start": 0.5, "duration": 1.0},
    {"text": "no", "start": 2.0, "duration": 0.4},
]
ONE = ["0.5-1.5 : Well, yes.", "2-2.4 : No."]
TWO = ["0.5-1.5 speaker 0: Well, yes.", "2-2.4 speaker 1: No."]
FILES = [
    ("AWS", AWS, ["0.5-1.5 : Well, yes.", "2-2.4 : No"]),
    ("AWS, older speakers", AWS_SPEAKERS, ["0.5-1.5 spk_0: Well, yes.", "2-2.4 spk_1: No"]),
    ("AWS, segments", AWS_SEGMENTS, ["0.5-1.5 spk_0: Well, yes.", "2-2.4 spk_1: No"]),
    ("AWS, channels", AWS_CHANNELS, ["0.5-1.5 ch_0: Well, yes.", "0.7-0.9 ch_1: Oh"]),
    ("AWS, calls", AWS_CALL, ["0.5-1.5 AGENT: Hello."]),
    ("AWS, no spaces", JAPANESE, ["0.5-1 : 今日は。", "1.2-1.5 : はい"]),
    ("Google, REST", GOOGLE, ["0.5-1.5 : well yes.", "2-2.4 : No"]),
    ("Google, protobuf", GOOGLE_PROTOBUF, ["0.5-2.4 : well no"]),
    (
        "Google, tags in the last result",
        GOOGLE_TAGS,
        ["0.5-0.9 speaker 1: well", "2-2.4 speaker 2: no"],
    ),
    ("Google, v2", GOOGLE_V2, ["0.5-0.9 speaker 1: Well,", "0.9-1.5 speaker 2: yes."]),
    (
        "Google, without words",
        GOOGLE_CHANNELS,
        ["0-1.5 channel 1: well yes", "1.5-2.4 channel 2: oh"],
    ),
    ("Azure, batch", AZURE, ["0.5-1.5 speaker 1: Well, yes.", "2-2.4 speaker 2: No."]),
    ("Azure, detailed", AZURE_DETAILED, ONE),
    ("Azure, one phrase", AZURE_DETAILED[0], ONE[:1]),
    ("Azure, fast", AZURE_FAST, ["0.5-1.5 channel 0: Well, yes.", "0.7-0.9 channel 1: Oh."]),
    ("Deepgram", DEEPGRAM, TWO),
    ("Deepgram, utterances", DEEPGRAM_UTTERANCES, TWO),
    ("Deepgram, paragraphs", DEEPGRAM_PARAGRAPHS, TWO),
    (
        "Deepgram, channels",
        DEEPGRAM_CHANNELS,
        ["0.5-1.5 channel 0: well yes", "0.7-0.9 channel 1: oh"],
    ),
    ("Rev", REV, TWO),
    ("Rev, by people", REV_HUMAN, ["0.5-1.5 Ann: Well, yes.", "2-2.4 Ben: No."]),
    ("AssemblyAI", ASSEMBLY, ONE),
    ("AssemblyAI, speakers", ASSEMBLY_SPEAKERS, ["0.5-1.5 A: Well, yes.", "2-2.4 B: No."]),
    ("AssemblyAI, sentences", ASSEMBLY_SENTENCES, ONE[:1]),
    ("gentle", GENTLE, ['0.5-1.5 : "Well, er, yes."', "2-2.4 : No."]),
    ("gentle, without its text", {"words": GENTLE["words"]}, ["0.5-2.4 : Well er yes No"]),
    ("aeneas", AENEAS, ["0.5-1.5 : Well,\nyes.", "2-2.4 : No."]),
    ("YouTube", YOUTUBE, ["0.5-1.5 : well yes", "2-2 : no"]),
    ("YouTube, a list", YOUTUBE_LIST, ["0.5-1.5 : well yes", "2-2.4 : no"]),
]


@over_rows(("layout", "data", "lines"), FILES)
def test_dialects_are_read_with_times_and_speakers(
    layout: str, data: Any, lines: list[str]
) -> None:
    assert cue_lines(parse_transcript(json.dumps(data).encode(), "talk.json")) == lines


def test_words_without_marks_become_segments_of_20_s() -> None:
    words = [
        {"case": "success", "word": "so", "start": at / 2, "end": at / 2 + 0.4}
        for at in range(5000)
    ]
    cues = cue_lines(parse_transcript(json.dumps({"words": words}).encode(), "talk.json"))
    assert len(cues) == 122
    assert cues[0].startswith("0-20.4 : so so")


def test_lines_of_objects_are_a_list() -> None:
    data = "\n".join(map(json.dumps, AZURE_DETAILED))
    assert cue_lines(parse_transcript(data.encode(), "talk.json")) == ONE


@over_rows(
    ("keys", "per_s"),
    [
        ("start stop text", 1),
        ("begin finish utterance", 1),
        ("t0 t1 text", 1),
        ("onset offset caption", 1),
        ("startTime endTime line", 1),
        ("start_ms end_ms text", 1000),
    ],
)
def test_segments_of_programs_without_a_row_are_read_by_their_usual_keys(
    keys: str, per_s: int
) -> None:
    times = [(0.5, 1.5, "Hello"), (2, 3.25, "there")]
    rows = [
        dict(zip(keys.split(), (start * per_s, end * per_s, text))) for start, end, text in times
    ]
    for data in (rows, {"segments": rows}):
        lines = cue_lines(parse_transcript(json.dumps(data).encode(), "x.json"))
        assert lines == ["0.5-1.5 : Hello", "2-3.25 : there"]


def test_other_json_is_refused_with_the_segments_that_it_seems_to_hold() -> None:
    rows = [{"says": "Hello", "a": 0, "b": 1.5}, {"says": "there", "a": 2, "b": 183.2}]
    with pytest.raises(WrongFileError) as caught:
        parse_transcript(json.dumps({"c": {"parts": rows}}).encode(), "x.json")
    assert str(caught.value).startswith(
        "x.json: JSON of an unknown program; it seems to hold 2 segments under c.parts, with the"
        " keys says, a, b; known are AWS"
    )
    assert "convert it to SRT" in str(caught.value)


def test_times_that_are_hardly_seconds_are_refused() -> None:
    rows = [{"text": "Hello", "t0": 0, "t1": 150}, {"text": "there", "t0": 200, "t1": 320}]
    with pytest.raises(WrongFileError, match="10 characters would last 270 s; write them in sec"):
        parse_transcript(json.dumps(rows).encode(), "x.json")


def test_a_broken_time_is_named() -> None:
    broken = {"monologues": [{"elements": rev(("Well", "soon", 1.0))}]}
    with pytest.raises(
        TranscriptError,
        match=r"a\.json, segment 1: expected its start and end in seconds, got 'soon'",
    ):
        parse_transcript(json.dumps(broken).encode(), "a.json")
