"""Tables of the languages of Europe, of what they read otherwise than the general one of Latin letters."""

from __future__ import annotations

_WEAK = "VC,VCC,VCCC,VCCCC"
"""The left context of an ending: a vowel letter came before."""
_NASAL = "(?:[bcdfgjklpqrstvwxzç]|$)"
"""The right context of a nasal vowel in French and Portuguese."""
_LAX = "e/_CC=ɛ i/_CC=ɪ o/_CC=ɔ u/_CC=ʊ"
_DUTCH = f"""
{_LAX} e/_C#=ɛ i/_C#=ɪ o/_C#=ɔ u=y u/_CC=ø u/_C#=ø e/C_#=ə e/{_WEAK}_[nlrmst]#=ə be/#_C=bə ge/#_C=xə ver/#_=vər
een/#_#=ən het/#_#=hət er/#_#=ər aa=a ee=e oo=o uu=y oe=u ie=i eu=ø ij=ɛɪ ei=ɛɪ ui=øy ou=aʊ au=aʊ aai=aɪ ooi=oɪ oei=uɪ
eeuw=ew ieuw=iw lijk=lək ig/_#=əx g=x gg=x ch=x sch=sx sch/_#=s sj=ʃ tj=tʃ ng=ŋ tie/_#=tsi w=v y=i c/_E=s th=t dt=t
isch/_#=is isch/_e#=is
"""
_SCANDINAVIAN = """
å=o o/_CC=ɔ e/_CC=ɛ i/_CC=ɪ u/_CC=ʊ y=y w=v z=s c=k c/_E=s ch=ʃ ck=k th=t ng=ŋ gn=ŋn qu=kv sj=ʃ skj=ʃ stj=ʃ kj=ʃ tj=ʃ
hj/#_=j gj/#_=j lj/#_=j dj/#_=j rt=ʈ rd=ɖ rs=ʃ tion=ʃun sion=ʃun
"""
_GAELIC = """
bh=v mh=v ch=x dh=ɣ gh=ɣ fh= ph=f sh=h th=h th/_#= dh/_E=j gh/_E=j dh/V_= gh/V_= c=k s/_[eiéíèì]=ʃ s/[iíì]_#=ʃ s/i_C=ʃ
d/_[eiéíèì]=dʒ t/_[eiéíèì]=tʃ d/i_#=dʒ t/i_#=tʃ ng=ŋ y=j a/C_#=ə e/C_#=ə an/#_#=ən na/#_#=nə a/#_#=ə ea=a eá=a eà=a
éa=e ao=i aoi=i eo=o eó=o ia=iə ua=uə ai=a ái=a ài=a oi=ɛ ói=o òi=o ui=ɪ úi=u ùi=u ei=ɛ éi=e èi=ɛ iu=ʊ io=ɪ iú=u iù=u
ío=i uí=i aí=i ae=e
"""
_IBERIAN = """
h= j=x g/_E=x gu/_E=ɡ gü=ɡw qu=k c/_E=s z=s v=b ll=j ñ=ɲ ch=tʃ rr=r y/_#=i u/_V=w i/_V=j hu/_V=w th=t sh=ʃ
"""
_ITALIAN = """
ch=k gh=ɡ c/_E=tʃ ci/_[aoueàòùè]=tʃ cc/_E=tʃ cci/_[aou]=tʃ g/_E=dʒ gi/_[aoueàòùè]=dʒ gg/_E=dʒ ggi/_[aou]=dʒ sc/_E=ʃ
sci/_[aoue]=ʃ gli/_[aeou]=lj gl/_i=lj gn=ɲ z=ts zz=ts qu=kw cqu=kw h= s/V_V=z i/_[aeouàèéòóù]=j u/_[aeioàèéìòó]=w
"""
_SERBO_CROATIAN = "c=ts ć=tʃ č=tʃ đ=dʒ dž=dʒ lj=lj nj=ɲ h=x y=i w=v"
_SORBIAN = """
c=ts ć=tʃ č=tʃ dz=dz dź=dʒ ch=x kh=k ł=w w/#_C= ó=o ě=e ě/#_=je y=ɨ ń=ɲ n/_[iě]=ɲ ř=ʃ ś=ʃ ź=ʒ h/V_C= h/V_#= e=ɛ
"""
EUROPE: dict[str, str] = {
    "de": f"""
        {_LAX} i/_C#=ɪ u/_[mn]#=ʊ e/C_#=ə e/{_WEAK}_[nlmst]#=ə er/{_WEAK}_#=ə e/{_WEAK}_rn#=ə e/{_WEAK}_rs#=ə be/#_C=bə
        ge/#_C=ɡə ver/#_=fɛʁ zer/#_=tsɛʁ es/#_#=ɛs ie=i ieh=i ei=aɪ ai=aɪ ey=aɪ ay=aɪ eu=ɔɪ äu=ɔɪ au=aʊ aa=a ee=e oo=o
        h/V_C= h/V_#= h/V_e= ch=x chs=ks sch=ʃ tsch=tʃ ck=k s/#_V=z s/V_V=z s/[lrn]_V=z ss=s st/#_=ʃt sp/#_=ʃp v=f w=v
        z=ts tz=ts c=k c/_E=ts qu=kv th=t dt=t y=y j=j ng=ŋ ig/_#=ɪx tion=tsion r=ʁ ä=ɛ
    """,
    "nl": _DUTCH,
    "af": _DUTCH + "y=əɪ v=f tj=k ê=ɛ ô=ɔ î=ə û=ø sj=ʃ oë=uə ie/_#=i g/[rl]_e=ɡ sch=sk",
    "fy": _DUTCH
    + """y=i u=ø u/_C[aeiou]=y g=ɣ g/#_=ɡ gg=ɡ â=ɔ ô=ɔ û=u ú=y ê=ɛ ea=iə oa=oə eo=øə ie=iə ij=ɛɪ sk=sk tsj=tʃ dzj=dʒ
        en/C_#=ən ge/#_C=ɡə oai=oaɪ jo=jo ji=ji""",
    "sv": _SCANDINAVIAN
    + """ä=ɛ ö=ø k/#_E=ʃ g/#_E=j sk/#_E=ʃ g/[lr]_#=j rn=n rl=l och/#_#=ɔ jag/#_#=ja de/#_#=dɔm mig/#_#=mɛj dig/#_#=dɛj
        sig/#_#=sɛj det/#_#=de är/#_#=ɛ age/_#=aʒ""",
    "no": _SCANDINAVIAN
    + """æ=æ ø=ø k/#_[iy]=ʃ g/#_[iy]=j sk/#_[iyø]=ʃ ei=æɪ øy=øy au=æʊ eg/_n=æɪ hv/#_=v d/[nl]_#= d/r_#= og/#_#=o
        jeg/#_#=jæɪ det/#_#=de meg/#_#=mæɪ deg/#_#=dæɪ seg/#_#=sæɪ ig/_#=i""",
    "da": _SCANDINAVIAN
    + """æ=ɛ ø=ø å=ɔ r=ʁ d/V_=ð d/#_=d d/V_[dt]= dd=ð nd=n ld=l rd=ʁ ds=s g/V_e=j g/V_#= gg=ɡ kk=ɡ pp=b tt=d hv/#_=v
        v/V_#=w v/V_C=w e/C_#=ə e/VC,VCC,VCCC_[nlrst]#=ə ej=aɪ eg/_#=aɪ øj=ɔɪ øg=ɔɪ af/#_#=æ og/#_#=ɔ det/#_#=de
        jeg/#_#=jaɪ mig/#_#=maɪ dig/#_#=daɪ sig/#_#=saɪ rt=ʁt rs=ʁs sk=sɡ st=sd sp=sb ig/_#=i de/#_#=di
        er/#_#=ɛʁ gn=ɡn""",
    "is": """
        þ=θ æ=aɪ á=aʊ é=jɛ í=i ó=oʊ ú=u ý=i ö=ø o=ɔ e=ɛ i=ɪ y=ɪ u=ø au=øɪ ei=eɪ ey=eɪ ll=tl rl=rtl nn/[áéíóúýæ]_=tn
        hv=kv g/V_V=ɣ g/V_[ij]=j g/V_#=ɣ f/V_[rðl]=v f/V_V=v f/V_#=v p/_t=f k/_t=x fl=pl fn=pn j=j nj=nj ny=nɪ
    """,
    "fo": """
        ð= á=ɔa í=ʊɪ ý=ʊɪ ó=oʊ ú=ɪʊ æ=ɛa ø=ø hv=kv kj=tʃ gj=dʒ sj=ʃ skj=ʃ k/#_E=tʃ g/#_E=dʒ ei=aɪ ey=ɛɪ oy=ɔɪ y=ɪ
        g/V_V=
    """,
    "fr": f"""
        a=a à=a â=a é=e è=ɛ ê=ɛ ë=ɛ ï=i î=i ô=o ù=u û=y ü=y u=y y=i œ=ø æ=e e=ə e/_CC=ɛ e/_[clfr]$=ɛ e/C_$= e/#C_$=ə
        e/V_$= es/C_$= es/V_$= es/#[lcdmst]_$=e e/g_[aou]= est/#_$=ɛ et/#_$=e er/{_WEAK}_$=e ier/C_$=je ez/_$=e et/_$=ɛ
        ets/_$=ɛ ed/_$=e ai=ɛ aî=ɛ ei=ɛ eî=ɛ au=o eau=o eu=ø œu=ø oeu=ø ou=u où=u oû=u oi=wa oî=wa ay/_V=ɛj oy/_V=waj
        uy/_V=wij ui=wi i/_V=j ou/_[aeéèiî]=w oê=wa an/_{_NASAL}=ã am/_[bp]=ã aon/_{_NASAL}=ã en/_{_NASAL}=ã em/_[bp]=ã
        en/[ié]_{_NASAL}=ɛ̃ ien/_$=jɛ̃ iens/_$=jɛ̃ ient/_$=jɛ̃ in/_{_NASAL}=ɛ̃ im/_[bp]=ɛ̃ yn/_{_NASAL}=ɛ̃ ym/_[bp]=ɛ̃
        ain/_{_NASAL}=ɛ̃ aim/_$=ɛ̃ ein/_{_NASAL}=ɛ̃ oin/_{_NASAL}=wɛ̃ un/_{_NASAL}=ɛ̃ um/_[bp]=ɛ̃ on/_{_NASAL}=ɔ̃
        om/_[bp]=ɔ̃ om/_$=ɔ̃ ent/[lrnuiz]_$= ent/ss,qu,pp,tt_$= aient/_$=ɛ oient/_$=wa ment/_$=mã b/_$=b c=k c/_E=s ç=s
        ch=ʃ sch=ʃ cc/_E=ks sc/_E=s ch/_[rln]=k g/_E=ʒ gu/_[eéèêiîy]=ɡ gn=ɲ ng/_$= j=ʒ qu=k q=k h= ph=f r=ʁ s/V_V=z
        ss=s x=ks ex/#_V=ɛɡz w=w z=z ti/_on=sj ti/s_on=tj ti/_e[lu]=sj ts/_$= t/_$= d/_$= p/_$= s/_$= x/_$= z/_$=
        t/_s$= d/_s$= p/_s$= g/_s$= g/[nru]_$= c/n_$= l/ti_$= ail/_$=aj ails/_$=aj aill=aj eil/_$=ɛj eils/_$=ɛj eill=ɛj
        euil=øj euill=øj ouil=uj ouill=uj œil=øj ueil=øj ueill=øj ill/C_V=ij ill/u_V=ij vill=vil mill=mil quill=kil
        monsieur/#_$=məsjø femme=fam femmes=fam fils/#_$=fis souvent/#_$=suvã donc/#_$=dɔ̃k sept/#_$=sɛt août/#_$=ut
        eu/#_$=y temps/_$=tã corps/_$=kɔʁ pays=pei sens/#_$=sãs os/#_$=ɔs est/u_$=ɛst est/#_'=ɛs six/#_$=sis
        dix/#_$=dis huit/#_$=wit mer/#_$=mɛʁ fer/#_$=fɛʁ hier/#_$=jɛʁ cher/#_$=ʃɛʁ hiver/#_$=ivɛʁ enfer/#_$=ãfɛʁ
    """,
    "es": _IBERIAN,
    "gl": _IBERIAN + " x=ʃ nh=ŋ g/_E=ʒ j=ʒ",
    "pt": f"""
        ão=ãʊ ãos=ãʊs ãe=ãɪ õe=ɔ̃ɪ ã=ã õ=ɔ̃ á=a â=a é=ɛ ê=e ó=ɔ ô=o an/_{_NASAL}=ã âm/_[bp]=ã ân/_C=ã am/_[bp]=ã
        am/_#=ãʊ en/_{_NASAL}=ɛ̃ ên/_C=ɛ̃ em/_[bp]=ɛ̃ em/_#=ɛ̃ɪ ens/_#=ɛ̃ɪs ém/_#=ɛ̃ɪ on/_{_NASAL}=ɔ̃ om/_[bp]=ɔ̃
        om/_#=ɔ̃ im/_[bp]=in im/_#=in um/_[bp]=un um/_#=un lh=lj nh=ɲ ch=ʃ x=ʃ ex/#_V=ez j=ʒ g/_E=ʒ gu/_E=ɡ qu/_E=k
        qu=kw ç=s c/_E=s sc/_E=s xc/_E=s s/V_V=z ss=s z/_#=s rr=ʁ r/#_=ʁ h= t/_i=tʃ d/_i=dʒ te/_#=tʃɪ tes/_#=tʃɪs
        de/_#=dʒɪ des/_#=dʒɪs e/C_#=ɪ es/C_#=ɪs o/_#=ʊ os/_#=ʊs e/#_#=i l/V_C=w l/V_#=w ai=aɪ ei=eɪ oi=oɪ ou=oʊ au=aʊ
        eu=eʊ i/_[aou]=j u/[gq]_[ao]=w
    """,
    "ca": f"""
        à=a á=a é=e í=i ó=o ú=u ï=i ü=u ll=lj ny=ɲ x=ʃ ix/V_=ʃ ix/V_V=ʃ tx=tʃ ig/V_#=tʃ tg/_E=dʒ tj=dʒ g/_E=ʒ j=ʒ
        c/_E=s ç=s qu/_E=k gu/_E=ɡ qü=kw gü=ɡw s/V_V=z ss=s tz=dz h= v=b rr=r a/{_WEAK}_#=ə a/V_#=ə as/{_WEAK}_#=əs
        es/{_WEAK}_#=əs e/{_WEAK}_#=ə en/{_WEAK}_#=ən o/{_WEAK}_#=u os/{_WEAK}_#=us r/[aeií]_#= rs/[aeo]_#=s t/n_#=
        ts/n_#=s è=ɛ ò=ɔ el/#_#=əl la/#_#=lə de/#_#=də que/#_#=kə per/#_#=pər i/V_=j u/V_=w x/e_V=ɡz
    """,
    "oc": """
        lh=lj nh=ɲ ch=tʃ o=u ò=ɔ ó=u u=y j=dʒ g/_E=dʒ gu/_E=ɡ qu=k c/_E=s ç=s tg=dʒ tj=dʒ s/V_V=z ss=s a/_#=ɔ as/_#=ɔs
        h= r/[aei]_#=
    """,
    "it": _ITALIAN,
    "ro": """
        ă=ə â=ɨ î=ɨ ș=ʃ ş=ʃ ț=ts ţ=ts c/_E=tʃ ch=k ci/_[aou]=tʃ ce/_a=tʃ ci/_#=tʃ g/_E=dʒ gh=ɡ gi/_[aou]=dʒ ge/_a=dʒ
        gi/_#=dʒ j=ʒ i/VC,VCC_#= i/V_=j i/_V=j u/V_=w ea=ja oa=wa w=v y=i x=ks h=h k=k este/#_#=jeste e/#_ste=je
        el/#_#=jel ea/#_#=ja eu/#_#=jew ei/#_#=jej î/V_= ii=ij
    """,
    "rm": """
        tg=tʃ tgi/_V=tʃ ch=k ch/_[aouüö]=tʃ ch/_#=tʃ tsch=tʃ sch=ʃ s/_[pctqgbdfvm]=ʃ à=a gl/_[iü]=lj gl/_#=lj gli/_V=lj
        gn=ɲ c/_E=ts g/_E=dʒ gi/_[aou]=dʒ gh=ɡ z=ts qu=kw ü=y ö=ø j=j s/V_V=z ss=s dg=dʒ e/C_#=ə a/C_#=ə e/C_[nrl]#=ə
        eu=eʊ ieu=iəʊ èi=ɛɪ è=ɛ
    """,
    "la": """
        c/_E=tʃ c/_[ao]e=tʃ g/_E=dʒ g/_[ao]e=dʒ ae=e oe=e æ=e œ=e ti/_V=tsi ti/[st]_V=ti gn=ɲ j=j y=i h= ch=k
        sc/_E=ʃ v=v i/#_V=j
    """,
    "pl": """
        a=a e=ɛ o=ɔ ó=u y=ɨ ą=ɔ̃ ę=ɛ̃ ę/_#=ɛ ą/_[td]=ɔn ą/_[pb]=ɔm ą/_[kg]=ɔŋ ą/_c=ɔn ę/_[tdc]=ɛn ę/_[pb]=ɛm ę/_[kg]=ɛŋ
        ą/_ł=ɔ ę/_ł=ɛ c=ts ch=x h=x cz=tʃ sz=ʃ rz=ʒ rz/[ptkh]_=ʃ ż=ʒ ź=ʒ ś=ʃ ć=tʃ dz=dz dź=dʒ dż=dʒ ł=w w=v
        w/[ptkscfh]_=f ń=ɲ s/_i=ʃ z/_i=ʒ c/_i=tʃ dz/_i=dʒ n/_i=ɲ si/_V=ʃ zi/_V=ʒ ci/_V=tʃ dzi/_V=dʒ ni/_V=ɲ i/_V=j
        sch=sx th=t qu=kv u/a_=w u/e_=w szcz=ʃtʃ nk=nk
    """,
    "cs": """
        c=ts ch=x ř=rʒ ě=jɛ ě/n_=ɛ ě/m_=ɲɛ n/_[iíě]=ɲ ď=dj ť=tj ň=ɲ ů=u y=i ý=i ou=oʊ au=aʊ e=ɛ é=ɛ dž=dʒ w=v h=h th=t
        qu=kv sch=sx r/C_C=ər l/C_C=əl l/C_#=əl r/C_#=ər
    """,
    "sk": """
        c=ts ch=x ä=ɛ ô=wo ď=dj ť=tj ň=ɲ ľ=lj n/_[eiíé]=ɲ dž=dʒ dz=dz y=i ý=i e=ɛ ou=oʊ v/V_#=w v/V_C=w ia=ja ie=jɛ
        iu=ju w=v h=h r/C_C=ər l/C_C=əl
    """,
    "hsb": _SORBIAN + "w=w",
    "dsb": _SORBIAN + "ó=ɛ ř=ʃ w=w kś=kʃ pś=pʃ tś=tʃ",
    "sl": _SERBO_CROATIAN + " v/V_C=w v/V_#=w v/#_C=u l/[aeiou]_#=w r/C_C=ər r/#_C=ər h=x e/C_r#=ə lj/_#=l nj/_#=n",
    "hr": _SERBO_CROATIAN + " r/C_C=ər r/#_C=ər",
    "sq": "ë=ə ë/_#= ç=tʃ q=tʃ gj=dʒ xh=dʒ x=dz c=ts dh=ð th=θ nj=ɲ ll=l rr=r sh=ʃ zh=ʒ y=y ng=nɡ gn=ɡn ts=ts",
    "hu": """
        a=ɔ á=a e=ɛ é=e i=i o=o ö=ø ő=ø ü=y ű=y c=ts cs=tʃ s=ʃ sz=s zs=ʒ gy=dj ty=tj ny=ɲ ly=j j=j dz=dz dzs=dʒ w=v
        x=ks ssz=s ccs=tʃ ggy=dj nny=ɲ tty=tj lly=j zzs=ʒ y=i h/V_C= h/V_#= th=t ch=tʃ sch=ʃ tsz=ts ts=tʃ tj=tj dj=dj
        nj=ɲ gn=ɡn
    """,
    "fi": "y=y y/_V=y y/V_=y ä=æ ö=ø å=o w=v c=k c/_E=s z=ts ng=ŋ sh=ʃ š=ʃ ž=ʒ gn=ŋn nj=nj sch=s.k.h th=t.h ny=ny",
    "et": "y=y ä=æ ö=ø ü=y õ=ə b=p d=t g=k š=ʃ ž=ʒ w=v c=ts z=s ng=ŋk nj=nj gn=kn ny=ny dz=ts",
    "vot": "ä=æ ö=ø ü=y õ=ə c=tʃ y=ɨ",
    "lv": """
        c=ts ē=ɛ e=ɛ ģ=dj ķ=tj ļ=lj ņ=ɲ o=uo ō=o dž=dʒ dz=dz h=x ch=x v/V_C=w v/V_#=w y=i w=v ie=iə au=aʊ ai=aɪ ei=ɛɪ
        ui=uɪ dz/_#=ts nj=nj gn=ɡn ts=ts
    """,
    "lt": """
        c=ts ch=x ė=e e=ɛ ę=ɛ ą=a y=i į=i ų=u ū=u dž=dʒ dz=dz h=h i/C_[aouąųūó]= ia/C_=ɛ ią/C_=ɛ dži/_[aouąųū]=dʒ w=v
        ie=iə au=aʊ ai=aɪ ei=ɛɪ nj=nj gn=ɡn
    """,
    "ga": _GAELIC
    + """bhf=v mb/#_=m gc/#_=ɡ nd/#_=n bp/#_=b dt/#_=d ts/#_=t adh/_#=ə idh/_#=i igh/_#=i aigh/_#=i eadh/_#=ə amh/_#=əv
        agh=aɪ abh=aʊ is/#_#=ɪs omh=o oí=i oíche/#_#=ihə""",
    "gd": _GAELIC + "chd=xk rt=rʃt b/V_=p d/V_#=t g/V_=k adh/_#=əɣ tha/#_#=ha pp=p c/V_=xk",
    "cy": """
        dd=ð ff=f f=v ll=l ch=x th=θ rh=r ph=f ng=ŋ ngh=ŋh nh=nh mh=mh c=k w=ʊ w/_V=w w/V_= u=i y=ə y/_C#=ɪ y/_CC#=ɪ
        y/_#=i y/#_#=ə yr/#_#=ər yn/#_#=ən fy/#_#=və dy/#_#=də au=aɪ ae=aɪ ai=aɪ oe=ɔɪ oi=ɔɪ ou=ɔɪ eu=eɪ ei=eɪ aw=aʊ
        ew=ɛʊ iw=ɪʊ yw=ɪʊ uw=ɪʊ ow=oʊ wy=ʊɪ si/_V=ʃ j=dʒ tsh=tʃ i/_V=j sh=ʃ e=ɛ o=ɔ gn=ɡn
    """,
    "br": """
        ch=ʃ c'h=x añ=ã eñ=ɛ̃ oñ=ɔ̃ iñ=in uñ=yn ñ= gn=ɲ zh=z ou=u où=u oa=wa oe=we eu=ø w=v u=y ù=y lh=lj ilh=ilj j=ʒ
        r=ʁ y=j gw=ɡw kw=kw an=ãn sh=ʃ
    """,
    "eu": "z=s s=s x=ʃ tx=tʃ tz=ts ts=ts j=j h= ñ=ɲ ll=j tt=tj dd=dj rr=r v=b y=j c=k",
    "mt": "ċ=tʃ ġ=dʒ ħ=h għ= għ/_#=h għh=h h= h/_#=h q=ʔ x=ʃ ż=z z=ts j=j w=w ie=iə y=i gn=ɡn",
    "eo": "c=ts ŭ=w j=j dz=dz gn=ɡn nj=nj",
    "ia": "c/_E=ts ch=k g=ɡ j=ʒ qu=kw y=i th=t rh=r ti/_[aou]=tsi ti/[sx]_V=ti h=h age/_#=aʒe gn=ɡn sc/_E=s",
    "io": "c=ts j=ʒ q=k qu=kw x=ks y=j ch=tʃ sh=ʃ h=h",
    "lb": "ë=ə é=e ä=ɛ äi=ɛɪ éi=eɪ ou=əʊ ue=uə ie=iə ei=aɪ au=aʊ",
    "gsw": "ie=iə ue=uə üe=yə ou=əʊ ei=ɛɪ k=kx st=ʃt sp=ʃp ä=æ",
    "se": "á=a č=tʃ đ=ð ŋ=ŋ ŧ=θ c=ts z=dz nj=ɲ y=i",
}
"""The tables of languages by their codes."""
