"""Nouns and titles of clinical notes: whether they are the patient's, by what stands beside them; in bytes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from swapbias.swapping.antecedents import CHILD, KIN, OTHER, PATIENT, SPOUSE, STAFF, sentences
from swapbias.swapping.table import DEMOGRAPHIC, GLUED, word_list

REASONS = ("relative", "spouse", "clinician", "other", "no_person", "both", "unknown")
LEFT_RELATIVE, LEFT_SPOUSE, LEFT_CLINICIAN, LEFT_OTHER, LEFT_NO_PERSON, LEFT_BOTH, LEFT_UNKNOWN = range(1, 8)
_I = re.IGNORECASE

# --- words by what kind of person they name --------------------------------------------------------------

MAN, TITLE, PRONOUN, LETTER, ROLE = 10, 11, 12, 13, 14
_PRONOUNS = frozenset("he she him her his hers himself herself".split())  # noqa: SIM905
_TITLES = frozenset("mr ms mrs miss sir madam ma'am".split())  # noqa: SIM905
_MEN = word_list("people")
_PARTNERS = word_list("partners")
_ROLES = word_list("roles")
CUES: Mapping[str, int] = {
    **dict.fromkeys(sorted(word_list("clinicians")), STAFF),
    **dict.fromkeys(sorted(word_list("others")), OTHER),
    **dict.fromkeys(("baby", "infant", "newborn", "neonate", "fetus"), CHILD),
    **dict.fromkeys(("partner", "spouse"), SPOUSE),
    **dict.fromkeys(("patient", "pt", "proband"), PATIENT),
}


def kind_of(text: str) -> int:
    """What kind of word a term of the table is; a term that is in no list names a relative.

    >>> kind_of("she") == PRONOUN, kind_of("yof") == LETTER, kind_of("stepson") == KIN
    (True, True, True)
    """
    for kind, words in (
        (PRONOUN, _PRONOUNS), (TITLE, _TITLES), (MAN, _MEN), (SPOUSE, _PARTNERS), (ROLE, _ROLES),
        (LETTER, DEMOGRAPHIC), (LETTER, GLUED),
    ):  # fmt: skip
        if text in words:
            return kind
    return KIN


def is_plural(text: str) -> bool:
    return text.endswith(("s", "men")) and not text.endswith("ss") and text not in _PRONOUNS | _TITLES | DEMOGRAPHIC


# --- nouns -------------------------------------------------------------------------------------------------

_AGE_BEFORE = re.compile(
    rb"(?:\d|_{2,}|\*\*\])[\s-]*(?:y\.?/?o\.?|yrs?\.?|years?|y\.?r\.?|months?|weeks?|days?|mo|wk|d|"
    rb"m)?[\s/.-]*(?:old|o\.?)?\W*"
    rb"(?:[A-Za-z-]+[\s,]+){0,6}$", _I)  # fmt: skip
_TO_SOMEONE = re.compile(
    rb"\b(?:by|to|from|with|against|beside|hit|punched|struck|robbed|assaulted|as if)\s+(?:an?|the|two|three|"
    rb"some|his|her|another|this|that|unknown)?\s*"
    rb"(?:[A-Za-z0-9-]+\s+){0,3}$", _I)  # fmt: skip
_OF_SOMEONE = re.compile(
    rb"(?:\b(?:by|to|from|with|against|for|at|on|beside|of|after|than|hit|punched|driven|helping|helped|told|"
    rb"saw|hears|hear|a|the)\s+"
    rb"(?:an?|the|two|three|four|some|his|her|another|other|unknown|many|several|most)\s+(?:[A-Za-z-]+\s+){0,2}|"
    rb"\b(?:two|three|four|five|other|unknown|another|some|many|carrier|affected|unaffected|the neighbor's|co-|"
    rb"few)\s+)$", _I)  # fmt: skip
_QUALIFIES = re.compile(
    rb"^[\s-]+(?:(?!(?:with|who|in|on|and|from|for|of|has|is|was|had|to|at)\b)\w+[\s-]+)?(?:nurse|nurses|donors?|partners?|friends?|cowork\w*|f(?:o)?etus|bystander|passerby|"
    rb"provider|chaperone|staff|"
    rb"sibling|relatives?|breast|pattern\w*|type|condom|catheter|luer|end|officer|doctor|physician|roommate|cousin|"
    rb"interpreter|attendant|aide|resident|colleague|caregiver|companion|neighbou?r|student|hormones?|shepherd|"
    rb"dog|cat|"
    rb"members?|visitors?|voices?|assailant|stranger|police|client|carriers?|twin|connector|adapter|"
    rb"contacts?)\b", _I)  # fmt: skip
_INFANT_AFTER = re.compile(
    rb"^[\s-]+(?:(?!(?:with|who|in|on|and|from|for|of|has|is|was|had|to|at)\b)\w+[\s-]+)?(?:infant|newborn|neonate|baby|child)\b",
    _I,
)
_BIRTH = re.compile(
    rb"(?:\bdeliver\w*|\bbirth (?:of|to)|\bgave birth|\bwith|\bviable|\blive(?:born)?|\bpregnant|"
    rb"\bher (?:new)?(?:baby|infant)|"
    rb"\bit'?s|\bcarrying|\bbearing|\blast baby|\bco-?twin|\btwin [ab]\b|\bone|\btwo|\btwins?|\bafter|"
    rb"\bmother of|\bhas|\bultrasound|\bshows?|"
    rb"\bshowed|\bexpecting|\bhaving|\byoungest|\boldest|\bfirst|\blast)\b[^.;\n]{0,24}$", _I)  # fmt: skip
_CHILD_BEFORE = re.compile(rb"\b(?:baby|infant|newborn|viable|live(?:born)?|term|fetal|twin)\s+$", _I)
_INFANT = re.compile(
    rb"\b(?:newborn|neonate|neonatal|DOL|days?[\s-]old|weeks?[\s-]old|NICU|baby (?:boy|girl)|infant (?:boy|"
    rb"girl)|day of life|"
    rb"apgars?|mother'?s milk|breastfeeding|skin to skin|meconium|maternal history|hearing screen|circumcision|"
    rb"\bbaby\b|feeds)", _I)  # fmt: skip
_NEWBORN = re.compile(
    rb"\b(?:NICU\b|DOL\b|\d[\s-]*(?:day|week|wk|hour)s?[\s-]old|former \d|maternal history|mother's milk|SGA|"
    rb"LGA|neonate)|"
    rb"^\W*(?:(?:pre|near[ -])?term|infant|baby|newborn)\b(?! (?:girl|boy) (?:latched|delivered))", _I)  # fmt: skip
_MOTHER_NOTE = re.compile(
    rb"\b(?:POD|patient (?:delivered|taught)|(?:her|his) (?:baby|newborn|infant)|newborn (?:son|daughter)|"
    rb"delivered a|postpartum)\b", _I)  # fmt: skip
_MATERNAL = re.compile(
    rb"\b(?:G\d\s?P\d|gravida|POD|postpartum|in (?:active )?labor|her (?:baby|newborn|infant|son|daughter)|"
    rb"patient (?:delivered|taught)|"
    rb"c-?section|cesarean|pregnant|(?:[2-9]\d|1[4-9])[\s-]*(?:y|F\b|M\b))", _I)  # fmt: skip
_RANGE = re.compile(rb"^\s*(?:[:=<>\d(]|over\b|under\b|\s\d)|^\s+(?:only)\b|^s\s+(?:only|over|under)\b", _I)
_INSTITUTION = re.compile(
    rb"^(?:'s|\xe2\x80\x99s|s')?\s+(?:and\s+(?:Infants|Children|Women|Babies)|(?:\w+\s+)?(?:Hospital|Health|"
    rb"Clinic|Center|Centre|"
    rb"Imaging|Wellness|Shelter|Services|Unit|Pavilion|Institute|Medical|Care|League|Correctional|"
    rb"Club)\b)", _I)  # fmt: skip
_SAME_AGE = re.compile(
    rb"^\s+(?:of|at|in)\s+(?:his|her)\s+(?:age|condition|situation)\b|^\s+(?:his|"
    rb"her)\s+age\b",
    _I,
)
_MARRIED = re.compile(rb"\bmarried\s+to\s+(?:the\s+same|an?|another|this|the)\s+(?:[a-z]+\s+)?$", _I)
_IS_A = re.compile(
    rb"(?:\b(?:is|was|as|became|become|becoming|being|remains?|he's|she's|been|"
    rb"like)\s+(?:\w+ly\s+)?(?:[a-z]+\s+and\s+)?(?:an?|the|now an?|also an?)\s+"
    rb"(?:[a-z0-9'-]+,?\s+){0,4}|\b(?:good|devoted|single|busy|proud)\s+)$", _I)  # fmt: skip
_AND_ROLE = re.compile(
    rb"\b(?:is|was|as|being|be)\s+an?\s+(?:[a-z]+\s+){0,2}(?:wife|husband|mother|father|son|"
    rb"daughter)\s+and\s+(?:an?\s+)?$",
    _I,
)
_APPOSED = re.compile(rb"(?:\bpatient|\bpt|[a-z0-9])\s*,\s+(?:an?\s+)?(?:[a-z0-9'-]+\s+){0,3}$", _I)
_OF_NUMBER = re.compile(rb"^\s+of\s+(?:\d|one|two|three|four|five|six|seven|eight|nine|ten|twins)\b", _I)
_BORN = re.compile(rb"^\s+(?:of|born)\b", _I)
_ORDINAL = re.compile(rb"\b(?:oldest|eldest|youngest|only|first|second|third|fourth|middle)\s+$", _I)
_BELONGS = re.compile(
    rb"(?:\b(?:sister|brother|son|daughter|mother|father|mom|dad|aunt|uncle|niece|nephew|cousin|friend|neighbor|"
    rb"roommate|"
    rb"driver|boss|officer|nurse|doctor|granddaughter|grandson)(?:'s|\xe2\x80\x99s)\s+(?:\w+\s+)?|"
    rb"\b(?:brother|son|father|uncle|nephew|sister|daughter|mother|aunt|niece)\s+and\s+(?:his|"
    rb"her)\s+)$", _I)  # fmt: skip
_STAFF_TITLED = re.compile(
    rb"^\.?\s+(?:\[\*\*[^\]]*\*\*\]|_{2,}|[A-Z][\w'-]*)(?:\s+[A-Z][\w'-]*)?\s*(?:,\s*(?:the\s+|our\s+|his\s+|"
    rb"her\s+|an?\s+)?(?:RN|PA|NP|MD|DO|"
    rb"PTA?|OTR?|LCSW|LPN|CNA|LICSW|MSW|PharmD|RD|social|case|nurse|chaplain|charge|attorney|wound|PA-C|"
    rb"physician|therapist|"
    rb"teacher|interpreter|counsel)|\s+(?:\((?:case|social|nurse|RN|NP|PA)|from\s+[A-Za-z]+|of\s+(?:social|case|"
    rb"hospice)))", _I)  # fmt: skip
_STAFF_BEFORE = re.compile(
    rb"(?:\b(?:nurse|practitioner|worker|manager|caseworker|teacher|interpreter|assistant|therapist|counselor|"
    rb"chaplain|aide|coordinator|supervisor|principal|midwife|librarian|prosecutor|pastor|landlord|trooper|guardian|"
    rb"boss|attorney|officer|coach)\s*,?\s+|"
    rb"\b(?:son|daughter|niece|nephew|sister|brother|mother|father|aunt|uncle|friend|neighbor)\s*,\s+|"
    rb"\b(?:dear|cc:)\s+)$", _I)  # fmt: skip
_SPOUSE_BEFORE = re.compile(
    rb"\b(?:wife|husband|spouse|fianc\xc3\xa9e?|fiancee?|girlfriend|boyfriend|partner)\s*,\s+$", _I
)
_SURNAME = re.compile(rb"^\.?\s+((?:\[\*\*|_{2,})|(?:[A-Z][\w-]*\.?\s+(?=[A-Z]))?[A-Z][\w-]*)")
_SIDES = rb"he|his|him|himself|m|male|man|boy", rb"she|her|hers|herself|f|female|woman|girl"
_PARTNER_AFTER = tuple(re.compile(rb"^\s*(?:/|\bor\b)\s*\(?\s*(?:%s)\b" % words, _I) for words in _SIDES)
_PARTNER_BEFORE = tuple(re.compile(rb"\b(?:%s)\s*(?:/|\bor\b)\s*$" % words, _I) for words in _SIDES)


def both(side: int, before: bytes, after: bytes) -> bool:
    """Whether the other gender's word stands beside it as its alternative: "his/her", "he or she"."""
    near, last = after[:6].lower(), before[-24:].lower()
    if b"/" not in near and b"or" not in near and b"/" not in last and b"or" not in last:
        return False
    return bool(_PARTNER_AFTER[1 - side].match(after) or _PARTNER_BEFORE[1 - side].search(last))


_DEMOGRAPHIC_BEFORE = re.compile(
    rb"(?:\d[\s-]*(?:y|mo|wk|week|month|day|d)\S*[\s-]*(?:old|o)?\W*(?:[a-z-]+[\s,]+){0,5}|\d\s?|(?:sex|"
    rb"gender)\W{0,5}|\**\]\s*|_{2,}\s*\w*\s*|"
    rb"\b(?:is|was) an?\s+(?:[a-z-]+,?\s+){0,5}|\b(?:nourished|developed|appearing|pleasant|"
    rb"this)\W+(?:[a-z-]+,?\s+){0,4}|\b(?:baby|infant)\s+|\()$", _I)  # fmt: skip


@dataclass(slots=True)
class Row:
    """What is known of a row: its bounds, the side of its patient, how it begins, its patient's surname."""

    first: int
    last: int
    side: int
    head: bytes
    surname: bytes = b""
    strangers: set[bytes] = field(default_factory=set)
    capital: bool = False  # whether the word at hand has a capital

    @property
    def infant(self) -> bool:
        return is_infant(self.head)

    @property
    def adult(self) -> bool:
        return is_adult(self.head)


@lru_cache(maxsize=64)
def is_infant(head: bytes) -> bool:
    """Whether a note that begins so is about a newborn, and not about its mother."""
    if _MOTHER_NOTE.search(head):
        return False
    return bool(_NEWBORN.search(head)) or bool(_INFANT.search(head) and not _MATERNAL.search(head))


@lru_cache(maxsize=64)
def is_adult(head: bytes) -> bool:
    """Whether the first age that a note tells is that of a grown person.

    >>> is_adult(b"60F here with her son, 9 y/o"), is_adult(b"12M with mother, 40 y/o")
    (True, False)
    """
    found = _FIRST_AGE.search(head)
    return bool(found and int(found.group(1)) >= _GROWN and not is_infant(head))


_FIRST_AGE = re.compile(rb"\b(\d{1,3})[\s-]*(?:y\b|y/?o|yo|yrs?\b|years?|[MF]\b|mo\b|months?|weeks?|days?)")
_GROWN = 37  # years; mothers of patients are younger at times, and children are described in up to 36 months
_YOUNG_PATIENT = re.compile(
    rb"(?:\b(?:baby|infant|newborn|term|-old|old|alert|this|week|weeks)\s+|\b(?:as|is|was)\s+an?\s+(?:[a-z]+\s+){0,2})$",
    _I,
)


def _relative(word: str, side: int, before: bytes, after: bytes, row: Row) -> int:
    """Relatives stay; but the patient may be one: "is a mother of two", "the only son of"."""
    if side != row.side:
        return LEFT_RELATIVE
    if after[:1] == b"-" or after[:2] in (b"'s", b"\xe2\x80"):
        return LEFT_RELATIVE
    bounds = sentences(before)
    clause = before[bounds[-1] if bounds else 0 :]
    led = not re.search(
        rb"\b(?:sister|brother|mother|father|son|daughter|wife|husband|sponsor|neighbor|friend|dr|nurse|"
        rb"roommate|donor|aunt|"
        rb"uncle|cousin|partner|niece|nephew|mom|dad)\b", clause, _I)  # fmt: skip
    if _AND_ROLE.search(before):
        return 0
    if not led:
        return LEFT_RELATIVE
    if _IS_A.search(before):
        return 0
    if (
        _ORDINAL.search(before)
        and _BORN.match(after)
        and not re.search(rb"\b(?:his|her|their)\s+\w+\s+$", before, _I)
    ):
        return 0
    return 0 if _APPOSED.search(before) and _OF_NUMBER.match(after) else LEFT_RELATIVE


_KIN_WORD = re.compile(rb"\b(?:mother|father|brother|sister|son|daughter|uncle|aunt|mom|dad|grand\w+|cousin)\b", _I)


def _person(word: str, side: int, before: bytes, after: bytes, row: Row) -> int:
    """Men and women, males and females, boys and girls."""
    if (row.capital and _INSTITUTION.match(after)) or re.match(
        rb"^[\s-]+(?:pattern|type|luer|condom|end\b|breast|"
        rb"hormone)",
        after,
        _I,
    ):
        return LEFT_NO_PERSON
    if both(side, before, after):
        return LEFT_BOTH
    if _MARRIED.search(before):
        return LEFT_SPOUSE
    if side != row.side or before.endswith((b"that ", b"That ")):
        return LEFT_OTHER
    if is_plural(word):
        return 0 if _SAME_AGE.match(after) else LEFT_OTHER
    if _RANGE.match(after) and re.search(
        rb"(?:normal|ref|range|hgb|hct|women|females?|males?|gfr)", before + after, _I
    ):
        return LEFT_NO_PERSON
    if _QUALIFIES.match(after) and not (_PATIENT_AGED.search(before) and not _CONTRASTED.match(after)):
        return LEFT_OTHER
    if _infant_named(before, row):
        return LEFT_RELATIVE
    if word in ("boy", "girl") and row.adult and not _YOUNG_PATIENT.search(before):
        return LEFT_OTHER
    infant = bool(_INFANT_AFTER.match(after) or _CHILD_BEFORE.search(before) or word in ("boy", "girl"))
    if infant and not row.infant and _BIRTH.search(before):
        return LEFT_RELATIVE
    if infant and not row.infant and word not in ("boy", "girl"):
        return LEFT_RELATIVE
    if infant and not row.infant and re.search(rb"\b(?:baby|infant|newborn)\s+$", before, _I):
        return LEFT_RELATIVE
    if re.search(rb"\bthis\s+(?:[a-z0-9-]+,?\s+){0,3}$", before, _I):
        return 0
    if re.search(rb"\bas\s+an?\s+$", before, _I):
        return LEFT_RELATIVE if _KIN_WORD.search(before[-40:]) else 0
    if word in ("boy", "girl") and re.search(rb"(?:^|[.\n;])\s*(?:a|an|another|one)\s+$", before, _I):
        return LEFT_OTHER
    if _AGE_BEFORE.search(before):
        return LEFT_OTHER if _TO_SOMEONE.search(before) else 0
    if re.search(
        rb"\b(?:is|was|as)\s+(?:[a-z]+\s+and\s+)?an?\s+(?:[a-z-]+,?\s+){0,4}$", before, _I
    ) and not _SOMEBODY_ELSE.search(before):
        return 0
    if _THE.search(before) and not _ELSEWHERE.match(after):
        return 0
    if infant:
        return LEFT_OTHER if _OF_SOMEONE.search(before) else 0
    if _ONE.search(before) or _OF_SOMEONE.search(before):
        return LEFT_OTHER
    return LEFT_OTHER if _SOME.search(before) and not _OPENING.search(before) else 0


def _infant_named(before: bytes, row: Row) -> bool:
    """Whether "the fetus, female" or "the baby, a girl" of a mother goes before."""
    return b"," in before[-10:] and bool(_INFANT_BEFORE.search(before)) and not row.infant


_INFANT_BEFORE = re.compile(rb"\b(?:fetus|infant|baby|newborn|neonate|twin [ab]),\s+(?:also\s+)?(?:an?\s+)?$", _I)
# "79 y/o male resident of", "is a 47-year-old female nurse who": the age opens the sentence, or is the patient's.
_PATIENT_AGED = re.compile(
    rb"(?:^|[.:\n]\s*|\b(?:pt|patient|he|she)\s+is\s+an?\s+|\bthis\s+)\d{1,3}[\s-]*(?:y\S*|year\S*|yr\S*)(?:[\s-]*old)?\s+"
    rb"(?:[a-z-]+\s+){0,2}$", _I)  # fmt: skip
_CONTRASTED = re.compile(rb"[\s-]+(?:f(?:o)?etus|breast|pattern|partner|donor|twin|sibling|cousin)\b", _I)
_SOMEBODY_ELSE = re.compile(
    rb"\b(?:god|voice|who|donor|twin|driver|caller|assailant|attacker|officer|nurse|doctor|surgeon|roommate|boss|neighbou?r|"
    rb"teacher|stranger|passenger|remembers?|remembered|knew|describes|described)\b", _I)  # fmt: skip
_THE = re.compile(
    rb"(?:^|[.,;:\n]|\b(?:and|that|when|as|because|while)\s)\s*the\s+(?:(?:young|old|elderly|little)\s+)?$", _I
)
_ELSEWHERE = re.compile(rb"\s+(?:in the (?:next|other)|who|upstairs|next|across|at the|from|on the|behind)\b", _I)
_ONE = re.compile(rb"(?:^|[.\n;])\s*(?:an?|one)\s+$", _I)
_SOME = re.compile(rb"\b(?:the|an?|young|old|elderly)\s+(?:(?:young|old|elderly)\s+)?$", _I)
_OPENING = re.compile(rb"(?:^|[.:\n])\s*(?:\w+:\s*)?(?:this|elderly|unfortunate)\s+$", _I)


def _letter(word: str, side: int, before: bytes, after: bytes, row: Row) -> int:
    return 0 if side == row.side else LEFT_OTHER


def _role(word: str, side: int, before: bytes, after: bytes, row: Row) -> int:
    """Trades and widowhood: the patient's where they are said of the patient."""
    if side != row.side or word in ("landlord", "landlady", "groom", "bride", "bridegroom"):
        return LEFT_OTHER
    somebody = _TO_SOMEONE.search(before) or before[-4:].lower() == b"the "
    return LEFT_OTHER if is_plural(word) or somebody else 0


def _title(word: str, side: int, before: bytes, after: bytes, row: Row) -> int:
    """Titles: the patient's name, which is the first one of that gender, and the spouse's."""
    found = _SURNAME.match(after)
    surname = found.group(1).split()[-1].lower() if found else b""
    if _SPOUSE_BEFORE.search(before):
        return LEFT_SPOUSE
    if surname in row.strangers and surname != row.surname:
        return LEFT_OTHER
    if _STAFF_TITLED.match(after) or _STAFF_BEFORE.search(before):
        row.strangers.add(surname)
        return LEFT_CLINICIAN
    if side != row.side:
        return (
            LEFT_SPOUSE
            if surname
            and surname == row.surname
            and not re.search(rb"\b(?:son|daughter|mother|father|sister|brother),\s*$", before, _I)
            else LEFT_OTHER
        )
    if not row.surname:
        row.surname = surname
        return 0
    return 0 if not surname or surname == row.surname else LEFT_OTHER


def _partner(word: str, side: int, before: bytes, after: bytes, row: Row) -> int:
    """Husbands and wives: the patient's, unless a relative's ("her son and his wife"), or the patient is one."""
    if side == row.side and (_IS_A.search(before) or _AND_ROLE.search(before)) and not _BELONGS.search(before):
        return 0
    led = _LED.search(before)
    if _BELONGS.search(before) or (led and (led.group(1).lower() == b"her") != (row.side == 1)):
        return LEFT_RELATIVE
    return LEFT_SPOUSE


_LED = re.compile(rb"\b(his|her)\s+(?:\w+[\s-]+)?$", _I)
JUDGES = {KIN: _relative, SPOUSE: _partner, MAN: _person, LETTER: _letter, ROLE: _role, TITLE: _title}


def is_demographic(before: bytes, after: bytes, *, letter: bool) -> bool:
    """Whether a word for a man or a woman (or a letter) tells the gender of a note's patient: "45-year-old man"."""
    if not letter and not _DEMOGRAPHIC_BEFORE.search(before):
        return False
    elsewhere = _TO_SOMEONE.search(before) or _BIRTH.search(before)
    return not (elsewhere or _QUALIFIES.match(after) or _RANGE.match(after))
