"""Terms that are gendered only in some contexts: letters of a demographic, titles, names of other things.

Each function looks at the text before and after a term (at most ``NEAR`` characters of its row) and says whether it
is gendered there, and in a word why that is in doubt, if it is.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from swapbias.studies import corpus_dir, read_table
from swapbias.swapping.resolvers import word_kind
from swapbias.swapping.table import DEMOGRAPHIC, GLUED, word_list

_I = re.IGNORECASE


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether a term is swapped, why the decision is doubtful, and what it becomes; blank: nothing, and the first."""

    swap: bool
    doubt: str = ""
    becomes: str = ""


_YES, _NO = Judged(True), Judged(False)

# --- letters: "72 y/o M", "45F", "Sex: M", "F/45" ------------------------------------------------------

_HEADER = re.compile(
    r"\b(?:sex|gender)(?:\s+(?:assigned\s+at\s+birth|at\s+birth|identity))?(?:\s*/\s*age)?[\"'”]?"
    r"(?:\s*[:=|–-]\s*|\s+)[\"'“(\[]?\s*$",
    _I,
)
_NAMED = re.compile("sex|gender", _I)
_AGE = r"(?:\d|_{2,}|\*\*\])"
# Up to three words of description may stand between the age and the letter ("66 yo Spanish speaking F").
_AGE_UNIT = re.compile(
    _AGE + r"\s*-?\s*(?:y\.?\s*/?\s*o?\.?|yrs?\.?(?:[\s-]*old)?|years?(?:[\s-]*old)?|y\.?r\.?s?\.?\s*/?\s*o(?:ld)?)"
    r"[\s,/-]*(?:(?!(?:with|who|on|in|at|for|of|to|and|has|had|is|was|from|by|the|a|an)\b)[A-Za-z-]+\s+){0,3}$",
    _I,
)
_GLUED = re.compile(_AGE + r"\s?-?$")  # what stands before "yoM" and "yF"
_BARE_AGE = re.compile(r"(?:(?<![\d.,/:$%#])(?<!\d[-/])(\d{1,3})|(_{3})|(\*\*\]))(?:[\s-]?|\s?/\s?|,\s)$")
_AGE_AFTER = re.compile(r"\s?/\s?\d{1,3}(?![\d/])|,\s?\d{1,3}\s?-?(?:y\b|y/?o\b|yrs?\b|years?\b)", _I)
_GRADED = re.compile(
    r"\b(?:bi-?rads|pi-?rads|ti-?rads|li-?rads|lung-?rads|grade|stage|class|category|type|score|size)\W*$", _I
)
_BOTH = re.compile(r"\s?/\s?[MF]\b"), re.compile(r"\b[MF]\s?/\s?$")
_DEVICE = (
    r"fr\b|french|gauge|gage\b|foley|cath|sheath|dilator|bougie|scope|balloon|tube|drain|pigtail|stent|needle|introducer|"
    r"pessary"
)
_INSTRUMENT = re.compile(rf"[\s-]*(?:{_DEVICE}|ga\b|size|ng\b|guid|rigid|coude|tegaderm|nacl|x\b|\(|deg)", _I)
_STORY = re.compile(
    r"\s*\b(?:with|who|w|s/p|h/o|p/w|c/o|hx|history|admitted|presents?|presented|presenting|and|has|had|is|was|in|from|"
    r"g\d{1,2}(?:\s?p\d{1,4})?|patient|pt|status|found|transferred|brought|adm|here|complain\w*|referred|known|seen|smoker|driver|pmh\w*|"
    r"restrained|struck|victim|living|resident|undergoing|being|now|never|found|s)\b",
    _I,
)
_DEVICE_NEAR = re.compile(rf"(?:\s+[\w-]+){{1,3}}?\s+(?:{_DEVICE})", _I)
_GOES_ON = re.compile(r"\s*(?:$|[,.;:)\n])|\s+(?:[a-z]|[A-Z]{2,5}\b)")  # no "2M NaOH"
_TEMPERATURE = re.compile(r"\btemp\w*\W{1,3}(?:of\s+)?$", _I)
_YOUNG = re.compile(
    r"\d\s?-?\s?(?:mos?\.?|m/o|months?|wks?\.?|weeks?|w/o|days?|d/o)(?:[\s-]old)?[\s,-]{1,2}$", _I
)  # "10 mo M", "3-week-old F"
_STOP = re.compile(r"\s*(?:$|[,.;:)\n\"'|])")
_PERSON = re.compile(r"\b(?:an?|is|pt|patient|this|aged?|age/sex:?|sex/age:?)\s+$", _I)
_LEADS = re.compile(
    r"(?:^|[\n.;]\s*|\b(?:an?|is|this|(?:pt|patient|subject)\s*[:=-]?)\s+|\b(?:pt|patient|subject):)$", _I
)  # "F 45" begins a sentence or names a patient
_AGE_BEHIND = re.compile(
    r"(?:,\s?|\s)(\d{1,3})(?!\d|\.\d|[%°/:-])(?=\s?(?:[,;]|$|\n|y\b|y/?o\b|yrs?\b|years?\b)|\.(?:\s|$)|\s+(?:with|who|w/|s/p|h/o|p/w|"
    r"c/o|presents?|presented|presenting|admitted|has|had|is|was|found|transferred|status|here|seen|complain\w*)\b)",
    _I,
)
_GROWN = 12  # years; "BM 3" counts stools
_TWO_AGED = re.compile(r"\s?[/&]\s?(\d{1,3})\s?([MF])\b"), re.compile(r"(\d{1,3})\s?([MF])\s?[/&]\s?(?=\d{1,3}\s?$)")
# "M34": a code (ICD-10: M34 is scleroderma) stands among others or before its name.
_AGE_ONTO = re.compile(
    r"(\d{2,3})(?=\s*(?:$|[,.;\n])(?!\w)|\s+(?:with|who|s/p|h/o|p/w|c/o|presents?|presented|presenting|admitted)\b)"
)
_CODE = re.compile(r"\b[A-Z]\d\d\b|\d[.)]\s*$|(?i:\b(?:icd|codes?|dx|diagnos[ie]s|apt|room|rm|bed)\b)")
_EXAMINED = re.compile(r"\s+in\s+(?:NAD\b|(?:no|mild|moderate|severe)\s+(?:[a-z]+\s+)?distress\b)", _I)
_DELIVERED = re.compile(r"\bG\d{1,2}\s?P\d{1,4}(?:\s?A\d{1,2})?\s+$", _I)
_GESTATION = re.compile(r"\s+(?:at|@)\s*\d")
_CLAUSE_ENDS = re.compile(r"\s*(?:$|[,;)\n]|\.(?!\s?[A-Za-z]\b))")  # no "M.D."
_BUILT = re.compile(
    r"\b(?:WD\s?/?\s?WN|well[\s-](?:developed|nourished|appearing)|pleasant|elderly|obese|thin|cachectic|middle[\s-]aged)[\s,]+$",
    _I,
)
_IS_ONE = re.compile(
    r"\b(?:pt|patient|s?he|this|who)\s+(?:is|was)\s+an?\s+"
    r"(?:(?!(?:with|who|on|in|at|for|of|to|and|or|from|by|the|an?)\b)[A-Za-z-]+\s+){0,3}$",
    _I,
)
_OPENED = {"(": ")", "[": "]"}
_WHO_IN_BRACKETS = re.compile(
    r"(?:^|\n|\b(?:pt|patient|mother|father|brother|sister|son|daughter|wife|husband|sibling|child|parent|spouse|twin|baby|"
    r"infant|driver|donor)(?:\s+[a-d1-3])?|\b[A-Z][a-z]+,\s?[A-Z][a-z]*\.?|\b[A-Z][a-z]*\.?\s[A-Z][a-z]+|\*\*\]|_{2,})\s?[(\[]$",
)
_FEVER = (90, 110)  # degrees Fahrenheit that may also be an age
_OLDEST, _LARGEST_TUBE, _FEW = 109, 34, 12


def letter(term: str, before: str, after: str) -> Judged:
    """Letters ("M" and "F") stand for a gender after an age or a section header, and nowhere else.

    >>> letter("F", "a 45", " with pain").swap, letter("F", "a 14", " Foley").swap
    (True, False)
    """
    if term.lower() in GLUED:
        slashed = before[-2:].lower() == "y/"
        if slashed == (term[0] in "oO"):
            return _YES if _GLUED.search(before[:-2] if slashed else before) else _NO
        return _NO
    if _BOTH[0].match(after) or _BOTH[1].search(before):
        return _NO
    bracketed = _OPENED.get(before[-1:]) == after[:1]
    if bracketed and term.isupper() and after[1:2] not in ("+", "-"):  # "[M]+" is an ion
        return _YES if _in_brackets(before, f"{before[:-1].rstrip()} ", after) else _NO
    # Both patterns are slow where they fail, and without these words they do.
    unit = "y" in before.lower() and _AGE_UNIT.search(before)
    if unit or (_NAMED.search(before) and _HEADER.search(before)):
        return _YES if term.isupper() or ":" in before[-4:] or unit else _NO
    numbered = before[-1:].isdigit()
    if not term.isupper() or (len(term) > 1 and numbered):
        return _NO
    if not numbered and (_EXAMINED.match(after) or _onto_age(before, after) or _described(term, before, after)):
        return _YES
    if len(term) > 1:
        aged = _AGE_BEHIND.match(after)
        return _YES if aged and _GROWN <= int(aged[1]) <= _OLDEST else _NO
    if _beside_aged(term, before, after):
        return _YES
    if _AGE_BEHIND.match(after) and (_LEADS.search(before) or (after[0] == "," and before[-2:] == ", ")):
        return _YES
    if _AGE_AFTER.match(after) and not before[-1:].isalnum() and before[-1:] != "/" and not _GRADED.search(before):
        return _YES
    if _YOUNG.search(before[-16:]) and not _INSTRUMENT.match(after) and after[:1] != "/":
        return _YES
    age = _BARE_AGE.search(before)
    return _after_number(term, before[: age.start()], before[age.end(1) :], age.group(1), after) if age else _NO


_AMBIGUOUS = frozenset({"BM", "BF", "HM", "HF"})  # a bowel movement, breast feeding, heart failure


def _described(term: str, before: str, after: str) -> bool:
    """Whether words of an examination go before: "G3P2 AAF", "pleasant WM", "Pt is a F with DM"."""
    if term in _AMBIGUOUS:
        return bool(_DELIVERED.search(before) and _GESTATION.match(after))
    if _DELIVERED.search(before) or (len(term) > 1 and _BUILT.search(before)):
        return True
    said = len(term) == 1 and (_STORY.match(after) or _CLAUSE_ENDS.match(after))
    return bool(said and _IS_ONE.search(before) and not _GRADED.search(before))


def _onto_age(before: str, after: str) -> bool:
    """Whether an age is written onto the letter, "M34 with pain", and no code: "F32, M54.5", "M34 Scleroderma"."""
    age = _AGE_ONTO.match(after)
    if age is None or not _LEADS.search(before) or _CODE.search(before) or _CODE.search(after[age.end() :]):
        return False
    return _GROWN <= int(age[1]) <= _OLDEST


def _beside_aged(term: str, before: str, after: str) -> bool:
    """Whether two people are described by age and letter: "59F/62M twins", and not two sizes of tubes ("14F/16F")."""
    if not {"/", "&"} & {*before[-6:], *after[:2]}:
        return False
    age, second = re.search(r"(\d{1,3})\s?$", before), _TWO_AGED[0].match(after)
    other = second or _TWO_AGED[1].search(before)
    rest = after[second.end() :] if second else after
    if age is None or other is None or _INSTRUMENT.match(rest) or _DEVICE_NEAR.match(rest):
        return False
    years = int(age[1]), int(other[1])
    return max(years) <= _OLDEST and (term != other[2] or _LARGEST_TUBE < min(years) <= max(years) < _FEVER[0])


def _in_brackets(before: str, opened: str, after: str) -> bool:
    """Whether "(M)" stands behind an age, a header or somebody, or before an age."""
    aged = "y" in opened.lower() and _AGE_UNIT.search(opened)
    headed = _NAMED.search(before) and _HEADER.search(before)
    person = _WHO_IN_BRACKETS.search(before) or _WHO_IN_BRACKETS.search(before.lower())
    return bool(
        aged or headed or person or re.match(r"[)\]][\s,]{1,2}\d{1,3}\s?(?:y\b|y/?o\b|yrs?\b|years?\b)", after, _I)
    )


def _after_number(term: str, earlier: str, gap: str, number: str | None, after: str) -> Judged:
    """A letter after a bare number, or after a removed age: an age, a temperature, a tube or a unit."""
    is_story = bool(_STORY.match(after))
    if _INSTRUMENT.match(after) or after[:1] in ("/", "°"):
        return Judged(False, "a letter after a number may be a unit")
    if number is None:
        return _YES
    years = int(number)
    if years > _OLDEST or (term == "F" and (_FEVER[0] <= years <= _FEVER[1] or _TEMPERATURE.search(earlier))):
        swap = years <= _OLDEST and bool(_WHO.match(after))
        return Judged(swap, "a number and F may be a temperature")
    stopped, person = bool(_STOP.match(after)), bool(_PERSON.search(earlier))
    small = years <= (_LARGEST_TUBE if term == "F" else _FEW)
    opened = not gap and bool(_LEADS.search(earlier) or earlier.endswith(": "))
    opened = opened and bool(_GOES_ON.match(after)) and not _DEVICE_NEAR.match(after)
    likely = opened or (is_story and (not small or person or not gap)) or (stopped and (person or not small))
    likely = likely and not after[:1].isdigit()
    sized = bool(_DEVICE_NEAR.match(after))
    if likely or (is_story and person) or (not small and not gap and not after[:1].isdigit() and not sized):
        return _YES
    return Judged(False, "a letter after a number may be a unit")


_WHO = re.compile(r"\s*(?:who|with|s/p|h/o|p/w|c/o|admitted|presents?|presented|presenting)\b", _I)

# --- words that are also names of other things ---------------------------------------------------------

_NAME = re.compile(r"\.?\s+(?:[A-Z]|\[\*\*|_{2,})|\.?\s*\[\*\*|\.?\s*_{2,}")
_NAME_IN_CAPITALS = re.compile(r"\.\s+(?:[A-Z]{2,}\b|\[\*\*|_{2,})|\s*\[\*\*|\s*_{2,}")
_NO_NAME = re.compile(
    r"\s+(?:IMAG\w*|ANGIO\w*|OF|BRAIN|CONTIN|AND|OR|IS|WAS|WITH|ON|NO|EXAM|STUDY|SPINE|HEAD|CHEST|ABDOMEN|PELVIS|"
    r"SCAN|FINDINGS|SEVERE|MODERATE|MILD|TRACE|IV|PO|FOR|IN|AT|TO|PATIENT|CHANGES?|STATUS|TEACHING|FOLLOW\w*)\b"
)
_CAPITAL_WORD = re.compile(r"\s+[A-Z]{2,}\b")


def title(term: str, before: str, after: str) -> Judged:
    """Titles: "Mr", "Ms" before a name; "MR" and "MS" without one are findings and diseases, "miss" is a verb.

    >>> title("Ms", "", ". Jones").swap, title("MR", "cardiac ", " imaging").swap, title("miss", "", " a dose").swap
    (True, False, False)
    """
    low = term.lower()
    if term.islower():
        dotted = bool(re.match(r"\.\s*\w", after))
        if low in ("mr", "mrs"):
            return _YES if dotted or re.match(r"\s+\w", after) else _NO
        return Judged(low == "ms" and dotted, "" if low == "miss" or dotted else f"{term} may be no title")
    if term.isupper() and low in ("mr", "ms"):
        named = bool(_NAME_IN_CAPITALS.match(after))
        in_capitals = _CAPITAL_WORD.match(after) and not _NO_NAME.match(after) and _in_capitals(before, after)
        return Judged(named or bool(in_capitals), f"{term} may be a finding or a disease")
    if low == "miss":
        return Judged(bool(_NAME.match(after)), "Miss may be a verb" if not before.strip() else "")
    return _YES


_HER2 = re.compile(r"[\s-]{0,2}(?:\d|neu\b|/neu\b|II\b)|\s?[:(]\s?[0-3]\s?\+", _I)
_HER2_IN_ANY_CASE = re.compile(
    r"\s?-\s?2\b|[\s-]{0,2}2?\s?[/-]?\s?neu\b|\s2\s?(?:\+|(?:positiv|negativ|amplif|overexpr)\w*|pos\b|neg\b|receptors?\b|"
    r"status\b|fish\b|ihc\b|gene\b)",
    _I,
)
_RECEPTOR = re.compile(rf"[\s:-]*(?:[0-3]\s?\+|[+-](?!\w)|(?:{'|'.join(sorted(word_list('receptor_words')))})\b)", _I)
_RECEPTORS = re.compile(r"\b(?:ER|PR|PGR|EGFR)\b[^.;\n]*$")
_STAINED = re.compile(rf"(?:\s+|-)(?:{'|'.join(sorted(word_list('stain_words')))})\b|[\s,(]{{0,3}}x\s?\d", _I)
_HELIUM = re.compile(rf" (?:{'|'.join(sorted(word_list('helium_words')))})\b")
_HIS_BUNDLE = re.compile(r"[\s-]*(?:bundle|purkinje|electrogram|system)\b", _I)
_BUNDLE_OF = re.compile(r"\b(?:(?:bundle|branch)(?:es)?|angle|fasciculus|fibers?)\s+of\s+(?:the\s+)?$", _I)
_BRACKETED = re.compile(r"\[\w\]$")  # "[t]his" of a quotation
_INCLUSIVE_HE = re.compile(r"(?:(?<!['’])\bs ?/ ?|\(s\))$", _I)  # neither "patient's/he" nor "drug(s) he"
# What follows a subject; an abbreviation (hepatic encephalopathy) has other neighbours.
_SUBJECT = re.compile(
    r"\s+(?:was|is|has|had|will|would|can|could|did|does|denies|denied|reports|reported|states|stated|said|says|"
    r"presented|presents|went|came|remains|remained|also|then|and\s+she|or\s+she|got|took|felt|fell)\b|['’]|"
    r"\s?/\s?(?:she|him|his)\b",
    _I,
)
_NO_SUBJECT = re.compile(
    r"\s*(?:$|[^\w\s'’])|\s+(?:and|or|grade|episodes?|secondary|due|resolved|prophylaxis|precipitated)\b", _I
)
_LONG_WORD = re.compile(r"[A-Za-z]{3,}")


def pronoun(term: str, before: str, after: str) -> Judged:
    """Pronouns: "HER-2" and the "His bundle" are no pronouns; "s/he" has both; a lone "HE" may be an abbreviation.

    >>> pronoun("HER", "", "-2/neu").swap, pronoun("His", "the ", " bundle").swap, pronoun("he", "s/", " was").swap
    (False, False, False)
    """
    low = term.lower()
    if (low == "he" and _INCLUSIVE_HE.search(before)) or _BRACKETED.search(before):
        return _NO
    if low == "her" and ((term.isupper() and _is_receptor(before, after)) or _HER2_IN_ANY_CASE.match(after)):
        return _NO
    if low == "he" and ((term == "He" and _HELIUM.match(after)) or (term == "HE" and _STAINED.match(after))):
        return _NO
    if low == "his" and term != "his" and (_HIS_BUNDLE.match(after) or _BUNDLE_OF.search(before)):
        return _NO
    if term.isupper() and low == "he" and not _in_capitals(before, after):
        subject = _SUBJECT.match(after) or (_starts(before) and not _NO_SUBJECT.match(after))
        return Judged(bool(subject), "HE may be an abbreviation")
    return _YES


def _is_receptor(before: str, after: str) -> bool:
    """Whether "HER" is a receptor: "HER-2", "HER: 2+", "ER/PR positive, HER negative"."""
    if _HER2.match(after):
        return True
    return bool(_RECEPTOR.match(after) and (_RECEPTORS.search(before) or not _in_capitals(before, after)))


_DOSE = re.compile(r"\s*(?:\d|prn\b|po\b|q\d|qd\b|qhs\b|ml\b|cc\b)", _I)


def abbreviation(term: str, before: str, after: str) -> Judged:
    """Nouns that are an abbreviation in capitals: "MOM" is milk of magnesia.

    >>> abbreviation("MOM", "5. ", " 30 ml").swap, abbreviation("mom", "her ", " called").swap
    (False, True)
    """
    if term.isupper() and (_DOSE.match(after) or not _in_capitals(before, after)):
        return Judged(False, f"{term} may be an abbreviation")
    return _YES


def _in_capitals(before: str, after: str) -> bool:
    """Whether most longer words around are in capitals; where there are none, nothing speaks against it."""
    beside = _LONG_WORD.findall(before) + _LONG_WORD.findall(after)
    return bool(2 * sum(word.isupper() for word in beside) >= len(beside))


def _starts(before: str) -> bool:
    return not before.strip() or before.rstrip()[-1:] in '.!?:"“'


_INCLUSIVE_MAN = re.compile(r"\(?\bwo\s?[/)]\s?$", _I)


def compound(term: str, before: str, after: str) -> Judged:
    """Words of both genders, "(wo)man", and "no man's land".

    >>> compound("man", "this (wo)", " with").swap
    False
    """
    land = _NO_MANS_LAND.match(after) and before[-3:].lower() == "no "
    return _NO if land or _INCLUSIVE_MAN.search(before) else _YES


_NO_MANS_LAND = re.compile(r"['’]s\s+land\b", _I)


def host(term: str, before: str, after: str) -> Judged:
    """A host of guests, not of a graft: beside "hostess", or of a party or a show.

    >>> host("host", "", "/hostess").swap, host("host", "graft versus ", " disease").swap
    (True, False)
    """
    return _YES if _HOSTESS[0].match(after) or _HOSTESS[1].search(before) or _PARTY.search(before) else _NO


_HOSTESS = (
    re.compile(r"\s?/\s?hostess(?:es)?\b|\s+(?:and|or)\s+(?:the\s+|an?\s+)?hostess(?:es)?\b", _I),
    re.compile(r"\bhostess(?:es)?(?:\s?/\s?|\s+(?:and|or)\s+(?:the\s+|an?\s+)?)$", _I),
)
_PARTY = re.compile(r"\b(?:party|dinner|show|television|tv|radio|restaurant)\s+$", _I)
_GROOMS = (
    re.compile(
        r"\s+(?:him|her|them|your|my)sel(?:f|ves)\b|,?\s+(?:and\s+)?(?:bathe|dress|feed|toilet|wash|walk)\b", _I
    ),
    re.compile(r"\b(?:to|can|cannot|could|not|will|bathe|dress|feed|toilet|wash),?\s+(?:and\s+|or\s+)?$", _I),
)


def groom(term: str, before: str, after: str) -> Judged:
    """Who marries a bride, not a verb.

    >>> groom("groom", "bride and ", "").swap, groom("groom", "able to dress and ", " himself").swap
    (True, False)
    """
    return _NO if _GROOMS[0].match(after) or _GROOMS[1].search(before) else _YES


_PLACE = re.compile(
    r"(?:['’]?[sS]['’]?)?(?:\s+(?:and|&|AND)\s+[A-Z][\w'’]*)?\s+(?:Hospital|HOSPITAL|Health|HEALTH|Medical|Clinic|CLINIC|Cent(?:er|re)|"
    r"CENTER|College|Institute|Pavilion|Services|Correctional|Prison|Shelter|Home|Wellness|Imaging|Initiative)\b"
)
_INFANTS = re.compile(r"['’]?s?\s+(?:and|&|AND)\s+(?:Infants|Children|INFANTS|CHILDREN)")
_BRIGHAM = re.compile(r"\bBrigham\s*(?:and|&|&amp;)\s*$", _I)
_NAMED_PLACE = re.compile(  # "Sister Kenny Institute"
    r"\s[A-Z][a-z][\w'’.-]*(?:\s+(?:[A-Z][a-z][\w'’.-]*|of|and|&)){0,2}?\s+(?:Hospital|Hospice|Clinic|Cent(?:er|re)|Institute|"
    r"College|School|University|Church|Convent|House|Home|Foundation|Memorial|Library|Street|Road|Avenue)\b"
)
_TITLED = re.compile(r"[ \t]+[A-Z][a-z]")
_NUN = re.compile(r"\s(?:(?:O['’]|Mc|Mac)[A-Z][a-z]+|Superior\b|([A-Z][a-z]+)(?![\w-]))")
_SALUTED = (
    re.compile(r"\bdear\s+(?:madam\s+(?:or\s+)?)?$|\bmadam\s?(?:/|\bor\b)\s?$", _I),
    re.compile(r"\s?(?:/|\bor\b)\s?madam\b", _I),
)
_OUR = re.compile(r"\bOur\s+$", _I)
_ORDER = re.compile(r"\s+of\s+(?:the\s+)?(?:[A-Z][a-z]+|St\.?|MERCY|CHARITY)\b")


def institution(term: str, before: str, after: str) -> Judged:
    """Names of places and orders: "Brigham and Women's Hospital", "Our Lady of Lourdes", "Sisters of Mercy".

    >>> institution("Women", "Brigham and ", "'s Hospital").swap, institution("women", "pregnant ", " and men").swap
    (False, True)
    """
    low = term.lower()
    if low in ("women", "men") and (_PLACE.match(after) or _INFANTS.match(after) or _BRIGHAM.search(before)):
        return _NO if not term.islower() else compound(term, before, after)
    if low in ("lady", "gentleman"):
        named = term.istitle() and _TITLED.match(after)  # "Lady Davis Hospital"
        return _NO if named or (not term.islower() and _OUR.search(before)) else _YES
    if low in _ORDERS and not term.islower() and (_ORDER.match(after) or _PLACE.match(after)):
        return _NO
    return compound(term, before, after)


def honorific(term: str, before: str, after: str) -> Judged:
    """Sir and madam: the title of a name stays ("Sir William Osler"), in a salutation "sir" is "madam".

    >>> honorific("Sir", "", " William").swap, honorific("Sir", "Dear ", ",").becomes, honorific("sir", "Yes, ", ".").becomes
    (False, 'madam', '')
    """  # noqa: E501
    if term.istitle() and _TITLED.match(after):
        return _NO
    if term.isupper() and not _in_capitals(before, after):
        return Judged(False, f"{term} may be an abbreviation")
    saluted = term.lower() == "sir" and (_SALUTED[0].search(before) or _SALUTED[1].match(after))
    return Judged(True, "", "madam" if saluted else "")


def religious(term: str, before: str, after: str) -> Judged:
    """Sisters, brothers, mothers and fathers of an order, before a name: "Sister Mary", "Father O'Brien".

    >>> religious("Sister", "", " Mary").swap, religious("sister", "her ", " Mary").swap
    (False, True)
    """
    if not term.istitle():
        return _YES
    named = _NUN.match(after)
    if named and (not named[1] or named[1] in _first_names()):
        return Judged(False, f"{term} may be a title")
    return _NO if _NAMED_PLACE.match(after) else _YES


@cache
def _first_names() -> frozenset[str]:
    rows = read_table(corpus_dir("gender_lexicon") / "names.csv", ("word", "group"))
    return frozenset(row["word"] for row in rows)


_ORDERS = frozenset({"sisters", "brothers", "daughters", "sons", "fathers"})
# --- given names -----------------------------------------------------------------------------------------

_NO_PATIENT = re.compile(
    r"\b(?:dr|drs|doctor|prof|professor|st|saint|mount|mt|lake|fort|port|new|san|santa|nurse|rn|np)\.?\s+(?:[A-Z]\.\s*)?$",
    _I,
)
_ADDRESSED = re.compile(r"\b(?:mr|mrs|ms|miss|master|mister)\.?\s+$", _I)
_OF_A_THING = re.compile(
    r"(?:['’]s)?(?:\s+[A-Z][\w'’-]*){0,2}\s+(?:[Dd]isease|[Ss]yndrome|[Ss]ign|[Tt]est|[Pp]alsy|[Ss]core|[Ss]cale|[Cc]atheter|[Tt]ube|[Dd]rain|"
    r"[Pp]rocedure|[Cc]lassification|[Cc]riteria|[Ss]tent|[Ss]plint|[Cc]lamp|[Rr]etractor|[Ff]racture|[Mm]aneuver|[Cc]olli(?:s|er)|et\s+al|"
    r"Hospital|Medical|Clinic|Cent(?:er|re)|University|College|School|Street|St|Ave|Avenue|Road|Rd|Drive|County|City|Memorial|Church|"
    r"House|Hall|Institute|Foundation|Rehab\w*|Nursing)\b"
)
_CLINICIAN = re.compile(
    r"(?:\s+[A-Z][\w'’.-]*){0,3},?\s+(?:M\.?D|D\.?O|R\.?N|N\.?P|P\.?A|Ph\.?D|PharmD|LPN|CRNA|DPM|DDS)\b"
)
_CAPITAL_BEFORE = re.compile(r"(?:^|[^\w.'’-])([A-Z][\w'’-]*)\.?\s+$")
_NO_FIRST_NAMES = word_list("no_first_names")
_CAPITAL_AFTER = re.compile(r"\s+(?:[A-Z]\.\s+)?[A-Z][a-z'’-]")


def _titled(text: str) -> str:
    """Words in capitals with their first letter alone in capitals: "'S DISEASE" is "'s Disease"."""
    return re.sub(r"['’]S\b", "'s", re.sub(r"\b[A-Z]{2,}\b", lambda found: found[0].capitalize(), text))


def given_name(term: str, before: str, after: str) -> Judged:
    """Given names: of a patient or a relative, and no surname, clinician, place or test.

    >>> given_name("John", "Mr. ", " Smith").swap, given_name("John", "St. ", "'s").swap
    (True, False)
    >>> given_name("JOHN", "NAME: ", " SMITH").swap, given_name("JOHN", "MARY ", " IS").swap
    (True, False)
    """
    capitals = term.isupper() and len(term) > 2
    if (
        not (term[0].isupper() and (capitals or term[1:].islower()))
        or before[-1:] in ("-", "’", "'")
        or after[:1] == "-"
    ):
        return _NO
    thing = _OF_A_THING.match(_titled(after) if capitals else after)
    if _NO_PATIENT.search(before) or thing or _CLINICIAN.match(after):
        return _NO
    if _ADDRESSED.search(before):
        return _YES if _CAPITAL_AFTER.match(_titled(after) if capitals else after) else _NO
    first = _CAPITAL_BEFORE.search(before)
    surname = first and first[1].lower() not in _NO_FIRST_NAMES
    # In capitals any word may be a heading's: "PATIENT SEEN WITH JOHN SMITH".
    if first and surname and (word_kind(first[1].lower()) == "n" if capitals else not first[1].isupper()):
        return Judged(False, "a given name may be a surname")
    return _YES


# --- race and age: only where they are said of a person ---------------------------------------------------

_PEOPLE = (
    r"(?:males?|females?|man|men|woman|women|patients?|pt|gentlem[ae]n|lad(?:y|ies)|boys?|girls?|persons?|people|individuals?|"
    r"adults?|child(?:ren)?|infants?|newborn|teenagers?|veterans?|smokers?|nonsmokers?|mother|father|mom|dad|parents?|couples?|"
    r"husband|wife|spouse|widow(?:er)?|famil(?:y|ies)|american|race|descent|ethnicity|background|origin|heritage|population|"
    r"communit(?:y|ies)|[MF]\b|G\d)"
)
_OF_PERSON = re.compile(
    rf"[\s,/-]+(?:(?:non-?hispanic|right-handed|left-handed|married|single|divorced|widowed|retired|elderly|obese|"
    rf"middle-aged|young|adult|pregnant|homeless|disabled|cachectic|thin|well-\w+|[\w-]*-year-old|\d+\s?y/?o)[\s,]+){{0,3}}{_PEOPLE}(?![\w-])",
    _I,
)
_RACE_HEADER = re.compile(r"\b(?:race|ethnicity|ethnic group|racial identity)(?:\s*/\s*\w+)?\s*[:=|-]\s*\W{0,2}$", _I)
_IDENTIFIES = re.compile(
    r"\b(?:identif(?:y|ies|ied)\s+(?:\w+\s+)?as|(?:he|she|they|patient|pt|who|and)\s+(?:is|was|are))\s+$", _I
)
_ENDS = re.compile(r"\s*(?:$|[.,;)\n|/]|and\b|or\b)", _I)


def of_person(term: str, before: str, after: str) -> Judged:
    """A word for a race or an age that names other things as well: "white count", "black stool", "Dr. White".

    >>> of_person("white", "a 45-year-old ", " male").swap, of_person("white", "elevated ", " count").swap
    (True, False)
    """
    said = _OF_PERSON.match(after) or _RACE_HEADER.search(before)
    if said and not _PRACTITIONER.search(before):
        return _YES
    return Judged(
        bool(_IDENTIFIES.search(before) and _ENDS.match(after)), f"{term.lower()} may be no {_KIND_OF[term.lower()]}"
    )


_PRACTITIONER = re.compile(r"\b(?:dr|doctor|mr|mrs|ms|miss|prof)\.?\s+(?:[A-Z]\w*\.?\s+)?$", _I)
_KIND_OF = {
    **dict.fromkeys(("white", "whites", "black", "blacks", "brown", "native", "indian"), "race"),
    **dict.fromkeys(("young", "younger", "older", "elderly"), "age"),
}
Judge = Callable[[str, str, str], Judged]
KIN_TITLES = frozenset({"sister", "brother", "mother", "father"})
JUDGES: Mapping[str, Judge] = {
    **dict.fromkeys(DEMOGRAPHIC | GLUED, letter),
    **dict.fromkeys(("mr", "ms", "mrs", "miss"), title),
    **dict.fromkeys(("her", "his", "he"), pronoun),
    "mom": abbreviation,
    "man": compound,
    **dict.fromkeys(_KIND_OF, of_person),
    **dict.fromkeys(("women", "men", "lady", "gentleman", *_ORDERS), institution),
    **dict.fromkeys(("sir", "madam"), honorific),
    **dict.fromkeys(("host", "hosts"), host),
    "groom": groom,
    **dict.fromkeys(KIN_TITLES, religious),
}
# Terms that must be looked at one by one in any case; the others only where what stands beside them is odd.
ALWAYS = frozenset(JUDGES) - {"he", "of"} - KIN_TITLES
