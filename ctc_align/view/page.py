"""The page of an alignment: one HTML file that shows it, plays its recording and mends it, without a network.

The page itself, script and style inside, is `page.html`, built of the sources in the folder `web` of the repository.
Here the alignment (its JSON object) and its sound are put into it, as data that no browser takes for anything else.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ctc_align.errors import UsageError
from ctc_align.text.characters import json_escaped
from ctc_align.view.page_sound import PageSound

THEMES = ("auto", "light", "dark")

_DATA = '<script type="application/json" id="page-data">{}</script>'
_SOUND = '<script type="text/plain" id="page-audio">{}</script>'
_SOUND_HREF = "#page-audio"
_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&"}
"""JSON inside HTML without these marks holds no tag, no comment, and no end of its element."""


@dataclass(frozen=True)
class PageServer:
    """The addresses at which a server works for a page that it has made.

    Args:
        save_href: where the page puts what was corrected (HTTP PUT of JSON); None: it is downloaded only.
        realign_href: where the page has its corrections aligned again (HTTP POST of JSON, answered by an alignment of
            the same words); None: it cannot.
        home_href: a link back; None for none.
    """

    save_href: str | None = None
    realign_href: str | None = None
    home_href: str | None = None


def page(
    alignment: Mapping[str, Any],
    *,
    name: str,
    sound: PageSound | None,
    server: PageServer | None = None,
    theme: str = "auto",
) -> str:
    """Return the page of an alignment as HTML; nothing in the arguments can become markup or script.

    Args:
        alignment: a JSON object of format "ctc-align/1", its times counted from the start of the utterance.
        name: the title, and the stem of the files that the page saves.
        sound: the recording; None: a page without sound.
        server: what the server that the page comes from does for it; None: it comes from none.
        theme: one of `THEMES`; "auto" is what the reader's system has.

    Raises:
        UsageError: there is no such theme.
    """
    if theme not in THEMES:
        raise UsageError(f"theme: expected one of {', '.join(THEMES)}, got {theme}")
    data = {
        "name": name,
        "alignment": alignment,
        "audio": {"href": None} if sound is None else sound.as_dict(_SOUND_HREF),
        "peaks": None if sound is None or sound.peaks is None else sound.peaks.as_dict(),
        **asdict(server or PageServer()),
        "theme": theme,
    }
    # base64 has no marks of HTML
    encoded = "" if sound is None or sound.encoded is None else base64.b64encode(sound.encoded).decode("ascii")
    rest = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    pieces = []
    for element, empty, content in ((_DATA, "null", json_in_html(data)), (_SOUND, "", encoded)):
        before, rest = rest.split(element.format(empty))
        pieces += [before, element.format(content)]
    return "".join([*pieces, rest])


def json_in_html(data: Any) -> str:
    """Return JSON that can stand in a script element: it reads the same, and has no marks of HTML in it.

    Control characters, marks of direction and halves of surrogate pairs are escaped too.

    >>> json_in_html({"text": "</script><!--"})
    '{"text": "\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    return json_escaped(json.dumps(data, ensure_ascii=False, allow_nan=False)).translate(_ESCAPES)
