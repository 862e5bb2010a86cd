"""Phones of Chinese characters: Mandarin, Cantonese ("yue"), and the Korean readings of hanja; and of bopomofo.

A character that has several readings has the one of its word where that is a frequent one, else the most frequent,
and the others as alternatives. Tones are left out; b, d, g of pinyin and Jyutping are voiced here, to be told from
p, t, k, which are aspirated.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ctc_align.text.sounds.han_readings import CANTONESE, KOREAN, MANDARIN, readings
from ctc_align.text.sounds.korean import korean_pieces
from ctc_align.text.sounds.neighbours import unknown
from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.spelling_rules import phone_table

_WORDS = """
银行=yin.hang 銀行=yin.hang 行业=hang.ye 行業=hang.ye 觉得=jue.de 覺得=jue.de 睡觉=shui.jiao 睡覺=shui.jiao
音乐=yin.yue 音樂=yin.yue 长大=zhang.da 長大=zhang.da 成长=cheng.zhang 成長=cheng.zhang 部长=bu.zhang
部長=bu.zhang 校长=xiao.zhang 校長=xiao.zhang 市长=shi.zhang 市長=shi.zhang 增长=zeng.zhang 增長=zeng.zhang
家长=jia.zhang 家長=jia.zhang 长期=chang.qi 長期=chang.qi 长江=chang.jiang 長江=chang.jiang 长城=chang.cheng
長城=chang.cheng 很长=hen.chang 很長=hen.chang 多长=duo.chang 重新=chong.xin 重复=chong.fu 重複=chong.fu
重庆=chong.qing 重慶=chong.qing 首都=shou.du 都市=du.shi 成都=cheng.du 地方=di.fang 地区=di.qu 地區=di.qu
土地=tu.di 地铁=di.tie 地點=di.dian 地点=di.dian 地球=di.qiu 当地=dang.di 當地=dang.di 地位=di.wei 目的=mu.de
的确=di.que 的確=di.que 了解=liao.jie 得到=de.dao 获得=huo.de 獲得=huo.de 只得=zhi.de 还是=hai.shi 还有=hai.you
归还=gui.huan 著名=zhu.ming 著作=zhu.zuo 睡着=shui.zhao 睡著=shui.zhao 着急=zhao.ji 著急=zhao.ji 会计=kuai.ji
會計=kuai.ji 便宜=pian.yi 大夫=dai.fu 头发=tou.fa 什么=shen.me 什麼=shen.me 甚麼=shen.me 怎么=zen.me 怎麼=zen.me
那么=na.me 多少=duo.shao 教师=jiao.shi 答应=da.ying 应该=ying.gai 應該=ying.gai 中国=zhong.guo 朝鲜=chao.xian
朝阳=chao.yang 参加=can.jia 參加=can.jia 人参=ren.shen 差不多=cha.bu.duo 出差=chu.chai 传说=chuan.shuo
自传=zi.zhuan 自傳=zi.zhuan 调查=diao.cha 調查=diao.cha 强调=qiang.diao 曾经=ceng.jing 曾經=ceng.jing
姓曾=xing.zeng 干净=gan.jing 乾淨=gan.jing 没有=mei.you 沒有=mei.you 沉没=chen.mo 说服=shuo.fu 厦门=xia.men
大厦=da.sha 仔细=zi.xi 牛仔=niu.zai 血液=xue.ye 和平=he.ping 暖和=nuan.huo 宿舍=su.she 薄弱=bo.ruo 似的=shi.de
似乎=si.hu
"""
_INITIALS = {
    MANDARIN: """b=b p=p m=m f=f d=d t=t n=n l=l g=ɡ k=k h=x j=dʒ q=tʃ x=ʃ zh=dʒ ch=tʃ sh=ʃ r=ɹ z=dz c=ts s=s""",
    CANTONESE: """b=b p=p m=m f=f d=d t=t n=n l=l g=ɡ k=k ng=ŋ h=h gw=ɡw kw=kw w=w z=dz c=ts s=s j=j""",
}
_FINALS = {
    MANDARIN: """
    a=a o=ɔ e=ə ê=ɛ ai=aɪ ei=eɪ ao=aʊ ou=oʊ an=an en=ən ang=aŋ eng=əŋ ong=ʊŋ i=i ia=ja ie=jɛ iao=jaʊ iu=joʊ ian=jɛn
    in=in iang=jaŋ ing=iŋ iong=jʊŋ u=u ua=wa uo=wɔ uai=waɪ ui=weɪ uan=wan un=wən uang=waŋ ueng=wəŋ v=y ve=yɛ van=yɛn
    vn=yn ue=yɛ er=əɹ r=əɹ io=jɔ m=m n=n ng=ŋ hm=hm
""",
    CANTONESE: """
    aa=a aai=aɪ aau=aʊ aam=am aan=an aang=aŋ aap=ap aat=at aak=ak a=a ai=əɪ au=əʊ am=əm an=ən ang=əŋ ap=əp at=ət
    ak=ək e=ɛ ei=eɪ eu=ɛʊ em=ɛm en=ɛn eng=ɛŋ ep=ɛp et=ɛt ek=ɛk i=i iu=iʊ im=im in=in ing=ɪŋ ip=ip it=it ik=ɪk o=ɔ
    oi=ɔɪ ou=oʊ on=ɔn ong=ɔŋ ot=ɔt ok=ɔk u=u ui=uɪ um=um un=un ung=ʊŋ ut=ut uk=ʊk up=up eoi=øy eon=øn eot=øt oe=ø
    oeng=øŋ oek=øk oet=øt yu=y yun=yn yut=yt m=m ng=ŋ om=ɔm op=ɔp
""",
}
_RETROFLEX_I = re.compile("(zh|ch|sh|r|z|c|s)i")
_ZERO_INITIALS = (
    ("yu", "v"), ("yi", "i"), ("you", "iu"), ("y", "i"), ("wu", "u"), ("wei", "ui"), ("wen", "un"), ("w", "u"),
)  # fmt: skip
_BOPOMOFO = """ㄅ=b ㄆ=p ㄇ=m ㄈ=f ㄉ=d ㄊ=t ㄋ=n ㄌ=l ㄍ=ɡ ㄎ=k ㄏ=x ㄐ=dʒ ㄑ=tʃ ㄒ=ʃ ㄓ=dʒ ㄔ=tʃ
ㄕ=ʃ ㄖ=ɹ ㄗ=dz ㄘ=ts ㄙ=s ㄚ=a ㄛ=ɔ ㄜ=ə ㄝ=ɛ ㄞ=aɪ ㄟ=eɪ ㄠ=aʊ ㄡ=oʊ ㄢ=an ㄣ=ən ㄤ=aŋ ㄥ=əŋ ㄦ=əɹ ㄧ=i ㄨ=u ㄩ=y"""
_REPEATED = "々〻"
_LACKING = {MANDARIN: {"〇": ("ling",)}, CANTONESE: {"〇": ("ling",), "㗎": ("gaa",)}}
"""Characters without a reading in Unihan."""


def chinese_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each character.

    >>> [" ".join(piece.phones) for piece in chinese_pieces("银行", "zh")]
    ['i n', 'x a ŋ']
    """
    if language == "ko":
        return _korean(text)
    column = CANTONESE if language == "yue" else MANDARIN
    words = _words() if column == MANDARIN else {}
    found: list[Piece] = []
    while len(found) < len(text):
        place = len(found)
        for length in (3, 2):
            own = words.get(text[place : place + length])
            if own is not None:
                found += [Piece(place + at, place + at + 1, phones) for at, phones in enumerate(own)]
                break
        else:
            character = text[place]
            ways = found[-1] if character in _REPEATED and found else None
            phones, *others = (ways.phones, *ways.others) if ways else _ways(character, column)
            found.append(Piece(place, place + 1, phones, tuple(others)))
    return found


@lru_cache(maxsize=8192)
def _ways(character: str, column: str) -> tuple[tuple[str, ...], ...]:
    """Return the pronunciations of a character."""
    known = readings(column).get(character, ()) or _LACKING[column].get(character, ())
    if not known and column == CANTONESE:
        return _ways(character, MANDARIN)
    ways = tuple(dict.fromkeys(syllable(reading, column) for reading in known))
    return ways or (_bopomofo().get(character, unknown(character)),)


def _korean(text: str) -> list[Piece]:
    known = readings(KOREAN)
    hangul = "".join(known.get(character, (character,))[0] for character in text)
    return korean_pieces(hangul, "ko") if len(hangul) == len(text) else chinese_pieces(text, "zh")


@lru_cache(maxsize=4096)
def syllable(reading: str, column: str) -> tuple[str, ...]:
    """Return the phones of a syllable of pinyin or Jyutping without its tone; v is ü.

    >>> syllable("xiong", MANDARIN), syllable("gwong", CANTONESE)
    (('ʃ', 'j', 'ʊ', 'ŋ'), ('ɡ', 'w', 'ɔ', 'ŋ'))
    """
    initials, finals = _tables(column)
    if column == MANDARIN:
        if match := _RETROFLEX_I.fullmatch(reading):
            return (*initials[match[1]], "ɨ")
        reading = _with_plain_final(reading)
    for length in (2, 1, 0):
        initial, final = reading[:length], reading[length:]
        if (not length or initial in initials) and final in finals:
            return (*initials.get(initial, ()), *finals[final])
    return unknown(reading[:1]) if reading else ()


def _with_plain_final(reading: str) -> str:
    """Return pinyin as initial and final: you is iu, ju is jv."""
    for written, final in _ZERO_INITIALS:
        is_whole = written in ("you", "wei", "wen")
        if reading == written or (reading.startswith(written) and not is_whole):
            rest = reading[len(written) :]
            return final + rest
    return re.sub("^([jqx])u", r"\1v", reading)


@lru_cache(maxsize=2)
def _tables(column: str) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    return phone_table(_INITIALS[column]), phone_table(_FINALS[column])


@lru_cache(maxsize=1)
def _bopomofo() -> dict[str, tuple[str, ...]]:
    return phone_table(_BOPOMOFO)


@lru_cache(maxsize=1)
def _words() -> dict[str, list[tuple[str, ...]]]:
    """Return the phones of each character of words with a reading that is not the most frequent."""
    rules = (rule.partition("=") for rule in _WORDS.split())
    return {word: [syllable(reading, MANDARIN) for reading in pinyin.split(".")] for word, _, pinyin in rules}
