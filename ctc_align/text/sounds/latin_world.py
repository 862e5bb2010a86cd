"""Tables of other languages of the world, of what they read otherwise than the general one of Latin letters."""

from __future__ import annotations

_TURKIC = "c=dʒ ç=tʃ ş=ʃ ı=ɨ j=ʒ y=j ng=ŋ ü=y ö=ø x=x q=q ch=tʃ sh=ʃ dj=dʒ gn=ɡn nj=nj ts=ts e=ɛ w=v ñ=ŋ ә=æ"
_MALAY = (
    "c=tʃ j=dʒ y=j ny=ɲ ng=ŋ ngg=ŋɡ sy=ʃ kh=x e=ə é=e k/V_#=ʔ v=f ai/_#=aɪ au/_#=aʊ oi/_#=oɪ x=ks dz=z th=t gn=ɡn dj=dʒ"
)
_BANTU = "c=tʃ ch=tʃ j=dʒ y=j ny=ɲ nj=ndʒ ng'=ŋ ng=ŋɡ sh=ʃ th=t ph=p kh=k bh=b dh=d gh=ɡ e=ɛ o=ɔ x=ks"
_NGUNI = _BANTU + " c=k q=k x=k gc=ɡ gq=ɡ gx=ɡ ch=k qh=k xh=k hl=l dl=l tsh=tʃ ty=tʃ dy=dʒ"
_SOTHO = _BANTU + " g=x kg=x kh=x hl=l tl=tl tlh=tl tš=tʃ tsh=ts š=ʃ ê=ɛ ô=ɔ"
_WEST_AFRICAN = "c=tʃ j=dʒ y=j ny=ɲ gb=ɡb kp=kp sh=ʃ ch=tʃ gn=ɡn"
_POLYNESIAN = "'=ʔ ng=ŋ wh=f th=t y=j"
_ANDEAN = "ll=lj ñ=ɲ ch=tʃ sh=ʃ y=j w=w h=h qu=k q=q j=h ä=a ï=i ü=u c=k z=s hu=w hua=wa"

WORLD: dict[str, str] = {
    "tr": _TURKIC + " ğ= ğ/[ei]_[ei]=j v/a_C=w",
    "az": _TURKIC + " ə=æ q=ɡ ğ=ɣ",
    "crh": _TURKIC + " ğ=ɣ",
    "tt": _TURKIC + " ğ=ʁ ä=æ w=w ı=ɨ ə=æ y=j",
    "kk": _TURKIC + " ğ=ʁ ä=æ ū=ʊ u=u y=ɨ i=ɪ",
    "uz": _TURKIC + " j=dʒ o=ɔ o'=o g'=ʁ a=a c=s v=v ğ=ʁ '=",
    "tk": "ç=tʃ j=dʒ ž=ʒ ý=j y=ɨ y/_V=ɨ y/V_=ɨ ň=ŋ ş=ʃ w=v ä=æ s=θ z=ð ö=ø ü=y",
    "ku": "c=dʒ ç=tʃ ê=e e=æ î=i i=ɪ u=ʊ û=u j=ʒ ş=ʃ x=x q=q y=j xw=xw gn=ɡn nj=nʒ",
    "id": _MALAY,
    "jv": _MALAY + " th=ʈ dh=ɖ a/_#=ɔ è=ɛ é=e",
    "su": _MALAY + " eu=ɨ é=e",
    "tl": "c=k j=dʒ y=j ng=ŋ ng/#_#=naŋ mga/#_#=maŋa ts=tʃ sy=ʃ ny=ɲ ñ=ɲ ll=lj dy=dʒ qu=k v=b z=s gn=ɡn",
    "mg": "o=u ô=o j=dz y=i tr=tʃ dr=dʒ ng=ŋɡ n̈=ŋ ai=aɪ ao=ow",
    "vi": """
        a=a ă=a â=ə e=ɛ ê=e i=i o=ɔ ô=o ơ=ə u=u ư=ɨ y=i y/_V=j ã=a õ=ɔ ẽ=ɛ iê=iə yê=iə ia/_#=iə ua/_#=uə ưa/_#=ɨə ươ=ɨə
        uô=uo ai=aɪ ay=aɪ ây=əɪ ao=aʊ au=aʊ âu=əʊ eo=ɛʊ êu=eʊ iu=iʊ oi=ɔɪ ôi=oɪ ơi=əɪ ui=uɪ ưu=ɨʊ oa=wa oă=wa oe=wɛ
        uâ=wə uê=we uy=wi uơ=wə uyê=wiə iêu=iəʊ yêu=iəʊ uôi=uoɪ ươi=ɨəɪ ươu=ɨəʊ oai=waɪ oay=waɪ uây=wəɪ c=k ch=tʃ
        ch/_#=k d=z đ=d g=ɣ gh=ɣ gi=z gi/_#=zi gi/_[nm]=zi kh=x ng=ŋ ngh=ŋ nh=ɲ ph=f qu=kw qu/_y=kw th=t tr=tʃ x=s r=z
        nj=nj gn=ɣn sh=ʃ w=w j=z f=f z=z
    """,
    "sw": _BANTU + " dh=ð th=θ gh=ɣ kh=x e=ɛ",
    "rw": _BANTU + " j=ʒ jy=dʒ cy=tʃ ky=tʃ shy=ʃ nj=nʒ nny=ɲ l=r ts=ts",
    "rn": _BANTU + " j=ʒ cy=tʃ shy=ʃ nj=nʒ l=r",
    "lg": _BANTU + " ky=tʃ gy=dʒ k/_i=tʃ g/_i=dʒ ŋ=ŋ nny=ɲ",
    "ln": _BANTU + " dj=dʒ",
    "ny": _BANTU + " r=l",
    "sn": _BANTU + " sv=s zv=z vh=v n'=ŋ zh=ʒ tsv=ts dzv=dz mh=m nh=n",
    "xh": _NGUNI + " r=x rh=x",
    "zu": _NGUNI,
    "ss": _NGUNI,
    "nr": _NGUNI,
    "st": _SOTHO,
    "nso": _SOTHO,
    "tn": _SOTHO,
    "ts": _BANTU + " hl=l x=ʃ c=tʃ dl=l",
    "yo": _WEST_AFRICAN
    + """ ẹ=ɛ ọ=ɔ ṣ=ʃ p=kp an/_C=ã an/_#=ã ọn/_C=ɔ̃ ọn/_#=ɔ̃ ẹn/_C=ɛ̃ ẹn/_#=ɛ̃ un/_C=un in/_C=in ã=a õ=o ẽ=e ń=n""",
    "ig": _WEST_AFRICAN + " ị=ɪ ọ=ɔ ụ=ʊ ṅ=ŋ gw=ɡw nw=ŋw kw=kw gh=ɣ",
    "ha": _WEST_AFRICAN + " ɓ=b ɗ=d ƙ=k ƴ=j 'y=j '=ʔ ts=ts kh=x",
    "ee": _WEST_AFRICAN + " ɖ=ɖ dz=dz ts=ts ƒ=f ʋ=v x=h h=x ŋ=ŋ ɣ=ɣ ɛ=ɛ ɔ=ɔ",
    "ak": _WEST_AFRICAN + " ɛ=ɛ ɔ=ɔ ky=tʃ gy=dʒ hy=ʃ tw=tʃw dw=dʒw hw=ʃw",
    "wo": _WEST_AFRICAN + " ë=ə é=e e=ɛ ó=o o=ɔ à=a x=x ñ=ɲ q=q",
    "bm": _WEST_AFRICAN + " ɛ=ɛ ɔ=ɔ ɲ=ɲ",
    "ff": _WEST_AFRICAN + " ɓ=b ɗ=d ƴ=j ñ=ɲ '=ʔ",
    "so": "c= x=h q=q dh=ɖ kh=x sh=ʃ j=dʒ y=j '=ʔ gn=ɡn nj=ndʒ",
    "om": "c=tʃ ch=tʃ x=t q=k ph=p dh=ɖ ny=ɲ j=dʒ sh=ʃ y=j '=ʔ",
    "kab": """
        c=ʃ č=tʃ ǧ=dʒ j=ʒ x=x ɣ=ɣ γ=ɣ σ=s q=q ḥ=h ɛ= ε= ԑ= ţ=ts e=ə y=j t=θ t/[nl]_=t t/_t= tt=t d=ð d/[nl]_=d dd=d ḍ=d
        ṛ=r gn=ɡn nj=nʒ ch=ʃ
    """,
    "cnh": """
        c=ts ch=ts kh=k ph=p th=t hl=l hn=n hm=m hr=r hng=ŋ rh=r ng=ŋ aw=ɔ h/V_#=ʔ h/C_#= ṭ=ʈ y=i au=aʊ ai=aɪ ei=eɪ
    """,
    "mi": _POLYNESIAN,
    "haw": _POLYNESIAN,
    "sm": _POLYNESIAN + " g=ŋ",
    "to": _POLYNESIAN,
    "ht": "ch=ʃ ou=u an=ã en=ɛ̃ on=ɔ̃ an/_[ea]=an en/_[ea]=en on/_[ea]=on è=ɛ ò=ɔ r=ɣ j=ʒ y=j ui=wi gn=ɲ",
    "gn": "ch=ʃ j=dʒ y=ɨ y/_V=ɨ y/V_=ɨ ñ=ɲ '=ʔ ỹ=ɨ õ=ɔ̃ ẽ=ɛ̃ ã=ã g=ɣ mb=mb nd=nd",
    "qu": _ANDEAN,
    "ay": _ANDEAN + " j=x x=x",
    "nah": "x=ʃ c/_E=s z=s ch=tʃ hu=w uh=w cu/_V=kw uc/V_=kw qu=k tl=tl tz=ts h=ʔ ll=l",
    "kl": "q=q ng=ŋ g=ɣ r=ʁ y=j e=i o=u",
    "nan": "ch=ts chh=ts j=dz ph=p th=t kh=k ng=ŋ h/V_#=ʔ",
}
"""The tables of languages by their codes."""
