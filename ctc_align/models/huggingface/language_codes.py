"""Codes of languages: of two letters (ISO 639-1) to the three (ISO 639-3) by which models of many languages go."""

from __future__ import annotations

from collections.abc import Collection

from ctc_align.errors import UsageError

# "zh" and others are families of languages; what models mean by them comes first.
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


def choose(language: str, there: Collection[str], name: str) -> str:
    """The one of `there` that `language` means: its own name, its three letters, or the only script of these.

    >>> choose("de", ["deu", "eng"], "mms"), choose("zh-CN", ["cmn-script_simplified", "eng"], "mms")
    ('deu', 'cmn-script_simplified')

    Raises:
        UsageError: none, or several.
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
