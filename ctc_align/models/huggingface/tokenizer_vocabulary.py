"""Tokenizers of transformers: the tokens of a network's classes, the blank, the word separator, the language."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ctc_align.errors import UsageError, one_line

SEPARATOR = "|"
"""The token between words in our vocabularies, whatever the tokenizer calls it."""
KNOWN_SEPARATORS = (SEPARATOR, "▁", " ", "<space>", "[SPACE]", "<SPACE>")

# "zh" and others are families of languages; the one that models mean comes first.
_THREE = (
    "aa aar,ab abk,ae ave,af afr,ak aka,am amh,an arg,ar ara arb,as asm,av ava,ay aym ayr,az aze azj,ba bak,"
    "be bel,bg bul,bi bis,bm bam,bn ben,bo bod,br bre,bs bos,ca cat,ce che,ch cha,co cos,cr cre,cs ces,cu chu,"
    "cv chv,cy cym,da dan,de deu,dv div,dz dzo,ee ewe,el ell,en eng,eo epo,es spa,et est ekk,eu eus,fa fas pes,"
    "ff ful,fi fin,fj fij,fo fao,fr fra,fy fry,ga gle,gd gla,gl glg,gn grn gug,gu guj,gv glv,ha hau,he heb,"
    "hi hin,ho hmo,hr hrv,ht hat,hu hun,hy hye,hz her,ia ina,id ind,ie ile,ig ibo,ii iii,ik ipk,io ido,is isl,"
    "it ita,iu iku,ja jpn,jv jav,ka kat,kg kon,ki kik,kj kua,kk kaz,kl kal,km khm,kn kan,ko kor,kr kau,ks kas,"
    "ku kur kmr,kv kom,kw cor,ky kir,la lat,lb ltz,lg lug,li lim,ln lin,lo lao,lt lit,lu lub,lv lav lvs,"
    "mg mlg plt,mh mah,mi mri,mk mkd,ml mal,mn mon khk,mr mar,ms msa zlm zsm,mt mlt,my mya,na nau,nb nob,nd nde,"
    "ne nep npi,ng ndo,nl nld,nn nno,no nor nob,nr nbl,nv nav,ny nya,oc oci,oj oji,om orm,or ori ory,os oss,"
    "pa pan,pi pli,pl pol,ps pus pbt,pt por,qu que,rm roh,rn run,ro ron,ru rus,rw kin,sa san,sc srd,sd snd,"
    "se sme,sg sag,si sin,sk slk,sl slv,sm smo,sn sna,so som,sq sqi als,sr srp,ss ssw,st sot,su sun,sv swe,"
    "sw swa swh,ta tam,te tel,tg tgk,th tha,ti tir,tk tuk,tl tgl,tn tsn,to ton,tr tur,ts tso,tt tat,tw twi,"
    "ty tah,ug uig,uk ukr,ur urd,uz uzb uzn,ve ven,vi vie,vo vol,wa wln,wo wol,xh xho,yi yid ydd,yo yor,yue yue,"
    "za zha,zh cmn zho,zu zul"
)
THREE_LETTERS = {codes.split()[0]: tuple(codes.split()[1:]) for codes in _THREE.split(",")}
"""Codes of languages of two letters (ISO 639-1) and the three letters (ISO 639-3) that models of many languages use."""

logger = logging.getLogger(__name__)


def load_tokenizer(folder: Path, name: str) -> Any:
    """Load the tokenizer in a model's folder.

    Raises:
        UsageError: it is missing or cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        # phonemes come from our lexicon: the tokenizer needs no phonemizer
        phonemes = _config_text(folder, "tokenizer_class") == "Wav2Vec2PhonemeCTCTokenizer"
        options = {"do_phonemize": False} if phonemes else {}
        return AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, **options)
    except Exception as error:  # transformers raises OSError, ValueError, TypeError, ImportError …
        raise UsageError(
            f"model {name}: its tokenizer (vocab.json or tokenizer.json) is missing, damaged or unknown: "
            f"{one_line(error)}"
        ) from error


def set_language(tokenizer: Any, language: str, name: str) -> str | None:
    """Choose a language in a tokenizer with a vocabulary for each; return the language as the model writes it, or None.

    Raises:
        UsageError: the tokenizer does not know the language.
    """
    nested = getattr(tokenizer, "vocab", None)
    if not isinstance(nested, dict) or not nested or not all(isinstance(part, dict) for part in nested.values()):
        return None
    chosen = choose_language(language, nested, name)
    tokenizer.set_target_lang(chosen)
    return chosen


def choose_language(language: str, there: Collection[str], name: str) -> str:
    """Return the one of `there` that `language` means: its own name, its three letters, or their only script.

    >>> choose_language("de", ["deu", "eng"], "mms"), choose_language("zh-CN", ["cmn-script_simplified", "eng"], "mms")
    ('deu', 'cmn-script_simplified')

    Raises:
        UsageError: no such language, or several.
    """
    if language in there:
        return language
    base = language.replace("_", "-").partition("-")[0].lower()
    for code in (base, *THREE_LETTERS.get(base, ())):
        if code in there:
            return code
        scripts = sorted(known for known in there if known.startswith(f"{code}-"))
        if len(scripts) == 1:
            return scripts[0]
        if scripts:
            raise UsageError(f"model {name}: language {language!r} may be {' or '.join(scripts)}: name one of them")
    few = ", ".join(sorted(there)[:8]) + (f" … ({len(there)} in all)" if len(there) > 8 else "")
    raise UsageError(
        f"model {name}: it has no part for the language {language!r}; there is {few}: choose with --language"
    )


def vocabulary(tokenizer: Any, folder: Path, classes: int, name: str) -> tuple[str, ...]:
    """Return the token of each class; `folder` is the tokenizer's own.

    Special tokens are put in brackets, so that they are never taken for letters; the token between words is `|`.

    Raises:
        UsageError: the tokenizer has more tokens than the network has classes: it belongs to another model.
    """
    ids = _ids(tokenizer)
    special = set(tokenizer.all_special_tokens)
    # transformers 5 forgets a delimiter other than its own when it loads a tokenizer
    delimiter = _config_text(folder, "word_delimiter_token") or getattr(tokenizer, "word_delimiter_token", None)
    beyond = sorted(token for token, index in ids.items() if index >= classes and token not in special)
    if beyond:
        raise UsageError(
            f"model {name}: the tokenizer has tokens beyond the network's {classes} classes ({', '.join(beyond[:5])}): "
            "it is another model's: copy vocab.json and tokenizer_config.json of this one"
        )
    tokens = [f"<no-token-{index}>" for index in range(classes)]
    for token, index in ids.items():
        if index < classes:
            tokens[index] = _written(token, special, delimiter, ids)
    without = sum(token.startswith("<no-token-") for token in tokens)
    if without:
        logger.warning("model %s: %d of the network's %d classes have no token", name, without, classes)
    return tuple(tokens)


def blank_of(tokenizer: Any, config: Any, classes: int, name: str) -> int:
    """Return the blank: the tokenizer's padding token, else that of the model's configuration.

    Raises:
        UsageError: neither is one of the network's classes.
    """
    for index in (getattr(tokenizer, "pad_token_id", None), getattr(config, "pad_token_id", None)):
        if index is not None and 0 <= index < classes:
            return int(index)
    raise UsageError(
        f"model {name}: expected the blank as pad_token of the tokenizer or pad_token_id of config.json, "
        f"below {classes}: neither says so"
    )


def _ids(tokenizer: Any) -> dict[str, int]:
    """Return tokens and their ids; of two tokens with one id, an added one is left out."""
    ids = getattr(tokenizer, "encoder", None)
    if not isinstance(ids, dict):
        return {str(token): int(index) for token, index in tokenizer.get_vocab().items()}
    taken = set(ids.values())
    added = {token: index for token, index in tokenizer.get_vocab().items() if token not in ids and index not in taken}
    return ids | added


def _written(token: str, special: set[str], delimiter: str | None, ids: dict[str, int]) -> str:
    if token == delimiter and token not in KNOWN_SEPARATORS and SEPARATOR not in ids:
        return SEPARATOR
    bracketed = len(token) > 2 and (token[0] + token[-1]) in ("<>", "[]")
    return f"<{token}>" if token in special and token != delimiter and not bracketed else token


def _config_text(folder: Path, key: str) -> Any:
    """Return the text of `key` in `tokenizer_config.json`, also of a token's table; None if it is missing."""
    try:
        value = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get(key)
        return value["content"] if isinstance(value, dict) else value
    except (OSError, ValueError, AttributeError, KeyError):
        return None
