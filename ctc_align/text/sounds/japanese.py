"""Phones of Japanese: kana, and kanji by the kanji and kana beside them.

Kanji side by side have their Chinese readings (音読み); one alone has a Japanese one (訓読み), of which the kana after
it may write the end. Frequent words that are read otherwise are in a table. The other readings are alternatives.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ctc_align.text.sounds.chinese import chinese_pieces
from ctc_align.text.sounds.han_readings import KUN, ON, readings
from ctc_align.text.sounds.kana import kana_morae, roman_kana, roman_phones
from ctc_align.text.sounds.neighbours import unknown
from ctc_align.text.sounds.pieces import Piece

_MOST_OTHERS = 3
# Words as they are written, with the kana that tell them apart, and the readings of their kanji.
_WORDS = """
今日=kyou 明日=ashita 昨日=kinou 今年=kotoshi 今朝=kesa 今=ima 大人=otona 一人=hitori 二人=futari 彼女=kano.jo 彼=kare
私=watashi 僕=boku 君=kimi 俺=ore 誰=dare 何=nani 人=hito 本=hon 家=ie 前=mae 後=ato 上=ue 下=shita 中=naka 外=soto
間=aida 時=toki 方=hou 他=hoka 事=koto 物=mono 者=mono 所=tokoro 話=hanashi 水=mizu 金=kane 年=nen 月=tsuki 日=hi
朝=asa 夜=yoru 道=michi 国=kuni 気=ki 手=te 目=me 声=koe 心=kokoro 体=karada 頭=atama 父=chichi 母=haha 子=ko 肉=niku
茶=cha 絵=e 字=ji 円=en 駅=eki 席=seki 線=sen 点=ten 番=ban 回=kai 度=do 台=dai 夫=otto 部屋=he.ya 時計=to.kei
友達=tomo.dachi 子供=ko.domo 手紙=te.gami 言葉=koto.ba 名前=na.mae 場合=ba.ai 場所=ba.sho 建物=tate.mono
食物=tabe.mono 荷物=ni.motsu 仕事=shi.goto 相手=ai.te 勝手=kat.te 上手=jou.zu 下手=he.ta 息子=musu.ko 日本=ni.hon
大阪=oo.saka 日曜=nichi.you 毎日=mai.nichi 毎朝=mai.asa 今夜=kon.ya 今度=kon.do 今回=kon.kai 大丈夫=dai.jou.bu
大変=tai.hen 大切=tai.setsu 大事=dai.ji 人間=nin.gen 日本人=ni.hon.jin 本当=hon.tou 一番=ichi.ban 時間=ji.kan
世界=se.kai 会社=kai.sha 先生=sen.sei 学生=gaku.sei 自分=ji.bun 自動車=ji.dou.sha 電車=den.sha 東京=tou.kyou
京都=kyou.to 最後=sai.go 最近=sai.kin 気持=ki.mo 受付=uke.tsuke 手前=te.mae 時々=toki.doki 人々=hito.bito 色々=iro.iro
色=iro 様々=sama.zama 様=you 皆=mina 皆さん=mi.na.sa.n 眼鏡=megane 果物=kuda.mono 煙草=tabako 田舎=inaka
真面目=ma.ji.me 素人=shirou.to 玄人=kurou.to 土産=miyage 笑顔=e.gao 梅雨=tsuyu 雨=ame 雪=yuki 風=kaze 空=sora 花=hana
木=ki 火=hi 音=oto 来る=ku 来ま=ki 来た=ki 来て=ki 来な=ko 来い=ko 来られ=ko 来=rai 出来=de.ki 行き=i 行く=i 行こ=i
行か=i 行け=i 言わ=i 言い=i 言う=i 思=omo 見=mi 入っ=hai 入り=hai 入れ=i 入る=hai 入ら=hai 出し=da 出す=da 出さ=da
出て=de 出る=de 出た=de 出ま=de 出な=de 下さ=kuda 分か=wa 分から=wa 生ま=u 生き=i 上が=a 上げ=a 下が=sa 下げ=sa 開け=a
閉め=shi 教え=oshi 大き=oo 小さ=chii 少し=suko 少な=suku 多く=oo 多い=oo 新し=atara 楽し=tano 好き=su 嫌い=kira
高=taka 早=haya 速=haya 良=yo 悪=waru 長=naga 食べ=ta 飲=no 書=ka 読=yo 聞=ki 話し=hana 使=tsuka 作=tsuku 持=mo 待=ma
立=ta 座=suwa 歩=aru 走=hashi 買=ka 売=u 会=a 知=shi 帰=kae 始め=haji 終わ=o 死=shi 寝=ne 起き=o 着=ki 取=to 置=o
乗=no 送=oku 忘=wasu 覚=obo 働=hatara 休=yasu 遊=aso 泳=oyo 歌=uta 笑=wara 泣=na 住=su 同じ=ona 本屋=hon.ya
花見=hana.mi 昔=mukashi 昼=hiru 夕方=yuu.gata 隣=tonari 右=migi 左=hidari 北=kita 南=minami 東=higashi 西=nishi
春=haru 夏=natsu 秋=aki 冬=fuyu 犬=inu 猫=neko 鳥=tori 魚=sakana 車=kuruma 店=mise 町=machi 村=mura 一つ=hito
二つ=futa 三つ=mi 四つ=yo 五つ=itsu 四=yon 七=nana 九=kyuu 十=juu 百=hyaku 千=sen 万=man 一=ichi 二=ni 三=san 五=go
六=roku 八=hachi
"""
_CHINESE_READINGS = """
発=hatsu 大=dai 物=butsu 内=nai 度=do 木=moku 読=doku 体=tai 自=ji 重=juu 石=seki 相=sou 省=shou 図=zu 済=zai 格=kaku
兄=kyou 極=kyoku 貝=kai
"""
"""The Chinese readings that are more frequent than those that Unihan has first."""
_KANJI = re.compile(r"[々〆ヶ\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_HIRAGANA = re.compile("[ぁ-ゖ]")
_LAST_KANA = re.compile("[ぁ-ゖ]+$")
_MORA = re.compile("[^aiueo]*?[aiueo]|n(?![aiueoy])")
_PARTICLE_HA = re.compile(r"は(?!じめ|じま|ず[がだでも]|なし|なれ|なす|や[くい]|っきり|たら|るか|いっ|いる|いり|ずし)")
_BEFORE_HA = re.compile(
    r"(?:[^ぁ-ゖ]|で|に|と|の|て|れ|ここ|そこ|あそこ|から|まで|たち|さん|こんにち|こんばん|ものごと|こと)$"
)
_AFTER_HE = re.compile(r"(?:$|[^ぁ-ゖ]|の|と|は|も)")
_VOICELESS = tuple("kstchfp")


def japanese_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of kana and kanji.

    >>> [(text[p.start : p.end], " ".join(p.phones)) for text in ["学校へ行った"] for p in japanese_pieces(text, "ja")]
    [('学', 'ɡ a'), ('校', 'k o'), ('へ', 'e'), ('行', 'i'), ('った', 't a')]
    """
    found: list[Piece] = []
    start = 0
    while start < len(text):
        end = start + 1
        is_kanji = bool(_KANJI.match(text[start]))
        while end < len(text) and bool(_KANJI.match(text[end])) == is_kanji:
            end += 1
        found += _kanji(text, start, end) if is_kanji else _kana(text, start, end)
        start = max(end, found[-1].end)
    return found


def _kana(text: str, start: int, end: int) -> list[Piece]:
    """Return the pieces of kana, with the particles は and へ as wa and e."""
    found: list[Piece] = []
    at = start
    for place in range(start, end):
        phones = _particle(text, place)
        if phones:
            found += _morae(text, at, place)
            found.append(Piece(place, place + 1, phones))
            at = place + 1
    return found + _morae(text, at, end)


def _particle(text: str, place: int) -> tuple[str, ...]:
    if text[place] not in "はへ" or not place:
        return ()
    if text[place] == "は":
        is_particle = _PARTICLE_HA.match(text, place) and _BEFORE_HA.search(text[max(place - 4, 0) : place])
        return ("w", "a") if is_particle else ()
    return ("e",) if _AFTER_HE.match(text, place + 1) and text[place - 1] != "ー" else ()


def _morae(text: str, start: int, end: int) -> list[Piece]:
    return [Piece(start + low, start + high, phones) for low, high, phones in kana_morae(text[start:end])]


def _kanji(text: str, start: int, end: int) -> list[Piece]:
    """Return the pieces of kanji side by side, and of the kana that a word of the table ends in."""
    found: list[Piece] = []
    place = start
    while place < end:
        for length in range(4, 0, -1):
            word = text[place : place + length]
            own = _words(_WORDS).get(word)
            is_alone = place == start and place + length >= end
            if (
                own is not None
                and (length > 1 or is_alone)
                and (place + length <= end or place == start or end - place == 1)
            ):
                found += _read(word, own, place)
                break
        else:
            found.append(_single(text, place, start, end))
        place = found[-1].end
    return found


def _read(word: str, own: tuple[str, ...], place: int) -> list[Piece]:
    """Return the pieces of the kanji of a word of the table."""
    kanji = _LAST_KANA.sub("", word)
    if len(own) != len(kanji):
        return [Piece(place, place + len(kanji), roman_phones("".join(own)))]
    others = tuple(map(roman_phones, _chinese_readings(word)[:2])) if len(word) == 1 else ()
    return [Piece(place + at, place + at + 1, roman_phones(part), others) for at, part in enumerate(own)]


def _single(text: str, place: int, start: int, end: int) -> Piece:
    """Return the piece of a kanji by its neighbours: the best reading, and others."""
    character = text[place]
    if character == "々" and place:
        character = text[place - 1]
    on, kun = _chinese_readings(character), readings(KUN).get(character, ())
    following = _HIRAGANA.findall(text[end : end + 4]) if place + 1 == end else []
    following = [roman_kana(kana) if kana != "っ" else "っ" for kana in following]
    stems = _stems(kun, following)
    if end - start > 1:
        next_on = (*_chinese_readings(text[place + 1]), "")[0] if place + 1 < end else ""
        before = (*_chinese_readings(text[place - 1]), "")[0] if place > start else ""
        ways = [*(_assimilated(reading, next_on, before) for reading in on), *stems, *kun]
    else:
        ways = [*stems, *_nouns(kun), *on, *kun]
    said = tuple(dict.fromkeys(filter(None, map(roman_phones, ways))))
    if not said:
        said = (chinese_pieces(character, "ja")[0].phones if character not in "々〆ヶ" else unknown(character),)
    return Piece(place, place + 1, said[0], said[1 : 1 + _MOST_OTHERS])


def _assimilated(reading: str, following: str, before: str) -> str:
    """Return a Chinese reading as it is beside others: gaku before kou is gak, hyou after hatsu is pyou."""
    if before.endswith(("tsu", "chi")) and len(before) > 3 and reading[:1] in ("h", "f"):
        reading = f"p{reading[1:]}"
    if following.startswith((*_VOICELESS, "h")) and reading.endswith(("tsu", "chi")) and len(reading) > 3:
        return reading[:-3]
    if following.startswith("k") and reading.endswith("ku") and len(reading) > 2:
        return reading[:-2]
    return reading


def _stems(kun: tuple[str, ...], following: list[str]) -> list[str]:
    """Return the parts of Japanese readings that a kanji stands for where kana write the rest, the best first."""
    if not following:
        return []
    scored: list[tuple[int, str]] = []
    for reading in kun:
        morae = _MORA.findall(reading)
        for cut in range(1, len(morae)):
            score = _fit(morae[cut:], morae[cut - 1], following)
            if score:
                scored.append((score, "".join(morae[:cut])))
    scored.sort(key=lambda way: -way[0])
    return [stem for _, stem in scored]


def _fit(ending: list[str], before: str, following: list[str]) -> int:
    """Return how well the end of a reading is what the kana write, in any form of a verb or adjective; 0 for not."""
    same = 0
    while same < min(len(ending), len(following)) and ending[same] == following[same]:
        same += 1
    if same == len(ending):
        return 10 + same
    if same:
        return 5 + same
    if len(ending) > 1:
        return 0
    last, first = ending[0], following[0]
    if last == "i":
        return 4 if first in ("ku", "ka", "ke", "sa", "so", "mi", "ge") else 0
    if not last.endswith("u"):
        return 0
    row = last[:-1].replace("ts", "t")
    if first[:-1].replace("ch", "t").replace("sh", "s").replace("ts", "t") == row and first != "っ":
        return 4
    is_changed = {"っ": ("u", "tsu", "ru", "ku"), "n": ("nu", "bu", "mu"), "i": ("ku", "gu"), "wa": ("u",)}.get(
        first, ()
    )
    if last in is_changed:
        return 4
    is_ichidan = (
        last == "ru" and before[-1] in "ie" and first in ("ta", "te", "ma", "na", "ra", "re", "yo", "sa", "chi")
    )
    return 3 if is_ichidan else 0


def _nouns(kun: tuple[str, ...]) -> list[str]:
    """Return the readings that are no verb in its dictionary form."""
    return [reading for reading in kun if not re.search("(?:[aiueo]|[kgsbmr]|ts)u$", reading) or len(reading) <= 4]


def _chinese_readings(character: str) -> tuple[str, ...]:
    """Return the Chinese readings of a kanji, the most frequent first."""
    return tuple(dict.fromkeys((*_words(_CHINESE_READINGS).get(character, ()), *readings(ON).get(character, ()))))


@lru_cache(maxsize=2)
def _words(table: str) -> dict[str, tuple[str, ...]]:
    return {word: tuple(roman.split(".")) for word, _, roman in (rule.partition("=") for rule in table.split())}
