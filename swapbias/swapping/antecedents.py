"""Whom a pronoun means in a clinical note: the patient, or the person who was named last.

All text is bytes, as it stands in the buffer, so that offsets need no translation. Rules, in the order of their
strength: a subject and its object are two persons ("he told him"); what a verb says of its subject ("denies" a
patient, "recommends" a clinician, "found him" a witness); who heads the clause; else it is the patient.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from swapbias.swapping.resolving import by_words, first_word, last_word
from swapbias.swapping.table import word_list

KIN, SPOUSE, STAFF, OTHER, CHILD, PATIENT = range(6)
REACH = 260  # bytes before a pronoun in which the person it means is looked for
AHEAD = 72  # bytes after it that say what it does
_I = re.IGNORECASE


def _verbs_of(name: str) -> frozenset[bytes]:
    return frozenset(word.encode() for word in word_list(name))


@dataclass(frozen=True, slots=True)
class Mention:
    """A person who is named: where, what kind, which side's pronouns mean it (-1: either)."""

    start: int
    end: int
    kind: int
    side: int
    plural: bool = False


@dataclass(frozen=True, slots=True)
class Earlier:
    """A pronoun that was decided: where it stands, whether it is a subject, and whether it means the patient."""

    start: int
    end: int
    subject: bool
    patient: bool


_SAYING = (
    r"say|says|said|saying|state|states|stated|report|reports|reported|reporting|tell|tells|told|note|notes|noted|"
    r"describe|describes|described|"
    r"feels?|felt|thinks?|thought|believes?|believed|think|agrees?|agreed|confirms?|confirmed|adds?|added|notices?|"
    r"noticed|worr(?:y|ies|ied)|worried|concerned|asks?|asked|wants?|knows?|claims?|claimed|denies|denied|mentions?|"
    r"mentioned|remembers?|recalls?|suspects?|suspected|found|finds|reviewed|recommends?|recommended|suggests?|suggested"
)
_SAID = re.compile(
    rf"\b(?:{_SAYING})\b(?:\s+(?:him|her|us|me|mom|dad|EMS|police|(?:the\s+)?(?:family|patient|parents|staff|nurse)))?(?:\s+that|\s+if|\s+whether)?\s*$".encode(),
    _I,
)
_THOUGHT = re.compile(
    rb"\b(?:feels?|felt|thinks?|thought|think|believes?|believed|found|notes?|noted|noticed?|notices|concerned|"
    rb"worried|"
    rb"knows?|whether|if|describes?|described|denies|denied|suspects?|suspected)\s*(?:that|if|"
    rb"whether)?\s*$", _I)  # fmt: skip
_AUXILIARY = (
    rb"(?:\s+(?:also|then|now|just|still|never|not|only|usually|always|often|currently|subsequently|herself|"
    rb"himself|"
    rb"later|soon|again|first|already|will|would|can|cannot|could|shall|may|might|must|should|has|have|had|does|"
    rb"do|did|"
    rb"is|was|were|be|been|being|to|agreed|and|has|'ll|'s)\b)*"
)
_VERB = re.compile(_AUXILIARY + rb"\s+([A-Za-z'-]+)", _I)
_MODAL = re.compile(rb"\s+(?:also\s+|then\s+)?(?:will|would|'ll)\b", _I)
_COULD = re.compile(rb"\s+(?:could|can|should|needs?|may|must|might)\b", _I)
_PASSIVE = re.compile(
    rb"\s+(?:also\s+|then\s+|now\s+|subsequently\s+|again\s+)?(?:(?:is|was|has\s+been|had\s+been|be|been|being|"
    rb"will\s+be|"
    rb"would\s+be|should\s+be|could\s+be|got)\s+)(?:also\s+|then\s+|not\s+|now\s+|subsequently\s+|again\s+|"
    rb"being\s+|"
    rb"initially\s+|therefore\s+)?"
    rb"(?:admitted|discharged|started|placed|given|treated|taken|transferred|intubated|extubated|brought|seen|"
    rb"evaluated|"
    rb"found|noted|diagnosed|hospitali[sz]ed|restarted|continued|maintained|kept|made|sent|prescribed|referred|"
    rb"advised|"
    rb"instructed|counsel+ed|followed|scheduled|weaned|transfused|hydrated|monitored|managed|switched|told|put|"
    rb"born|"
    rb"operated|prepped|draped|positioned|induced|delivered|transported|stabili[sz]ed|febrile|afebrile|alert|awake|"
    rb"oriented|stable|able|unable|ambulating|tolerating|doing|having|eating|feeling|complaining|taking|using|"
    rb"smoking|"
    rb"wheezing|breathing|vomiting|limping|lethargic|confused|depressed|nauseated|hypotensive|tachycardic|npo|"
    rb"comfortable|"
    rb"asymptomatic|voiding|breastfeeding|pregnant|drunk|ready|worse|better|improving)\b", _I)  # fmt: skip
# Verbs by what they say of their subject, in any form that notes use.
_PATIENTS = _verbs_of("patient_verbs")
_STAFFS = _verbs_of("clinician_verbs")
_WITNESSES = _verbs_of("witness_verbs")
_MOTHERS = re.compile(
    rb"^\s+(?:also\s+|has\s+|had\s+|then\s+)?(?:received\s+(?:betamethasone|penicillin|prenatal|steroid|"
    rb"magnesium|antibiotic|"
    rb"ampicillin)|delivered|pumps|pumped|"
    rb"breast-?fe\w+|was\s+(?:GBS|rubella|group\s+B|Rh|HIV|hepatitis|a\s+G\d|gravida)|is\s+(?:GBS|Rh|rubella|blood\s+type)|"
    rb"presented\s+in\s+"
    rb"labor|labored|went\s+into\s+labor|smoked\s+during|denied\s+(?:drug|alcohol)|is\s+(?:still|also|now|doing|"
    rb"currently|a\s+G\d))", _I)  # fmt: skip
_STAFF_NOUNS = re.compile(
    rb"^\s+(?:own|office|clinic|note|notes|team|practice|card|recommendations?|attestation|shift|student|badge|"
    rb"colleagues?|"
    rb"assistants?|partner|residents?|pager|opinion|supervisor|schedule|dictation|nurse practitioner|office's|"
    rb"service|"
    rb"report|consult\w*|evaluation|impression|cell|phone|input|help|assistance|adjustments|hands|"
    rb"permission)\b", _I)  # fmt: skip
_OWNED = re.compile(
    rb"^\s+(?:own|phone|cell|house|home|car|truck|keys?|job|number|questions|supervisor|office|gun|mail|lawn|"
    rb"boss|sight|"
    rb"husband|wife|apartment|voice|mind|xanax|prescription|pills|card|badge|sleep|twenties|thirties|forties|"
    rb"fifties|"
    rb"sixties|seventies|eighties|nineties|teens|[1-9]0'?s|early|mid|late)\b", _I)  # fmt: skip
_AGE = re.compile(
    rb"^\s+(?:(?:early|mid|late)[\s-]+)?(?:teens|twenties|thirties|forties|fifties|sixties|seventies|eighties|"
    rb"nineties|"
    rb"[1-9]0'?s)\b", _I)  # fmt: skip
_RELATED = re.compile(
    rb"^\s+(?:(?:own|late|older|younger|oldest|youngest|twin|elderly|maternal|paternal|biological|first|ex|"
    rb"other|two|three|"
    rb"eldest|big|little)[\s-]+)*(?:mother|father|mom|dad|mum|brother|sister|son|daughter|wife|husband|uncle|"
    rb"aunt|nephew|"
    rb"niece|cousin|grand\w+|step\w+|parents?|children|siblings?|family|girlfriend|boyfriend|fianc|pcp|primary|"
    rb"roommate|neighbo|friend|teacher|coach|boss|school|doctor|physician|surgeon|nurse|therapist|"
    rb"(?:\w+\s+)?counselor|"
    rb"\w+ologist|\w+iatrist|lawyer|attorney|landlord|sponsor|case ?manager|case ?worker|midwife|"
    rb"aide)", _I)  # fmt: skip
_LINKED = re.compile(
    rb"(?:^|[,;:\xe2\x80\x94-])\s*(?:(?:and|but|so|who|then)\s+)?(?:that\s+)?$|\b(?:and|but|who|so)\s+$", _I
)
_CAUSE = re.compile(
    rb"\b(?:because|when|while|as|after|until|if|where|before|since|although|though|whether|that|once|during|"
    rb"till)\s+$",
    _I,
)
_CARED = re.compile(
    rb"\b(?:say|says|said|states?|stated|reports?|reported|found|brought|noticed|noted|called|took|saw|heard|"
    rb"describes?|"
    rb"described|gave|gives|told|feeds?|helps?|checks?|cares|cared|examined|started|increased|did|noticing|will|"
    rb"changed|"
    rb"feels|worries|concerned|asked|wanted|wants|does|manages|fills|watches|drives|lets|keeps|coaches|pays|moved|moves|sent|drove|held|put|bathes|bathed|washes|cooks|cleans|cleaned|dresses|wipes|translates?|changes|applied|"
    rb"worked)\b", _I)  # fmt: skip
_TOPIC = re.compile(
    rb"^\W*(?:I\s+|we\s+|have\s+|also\s+|case\s+|plan\s+|results?\s+|findings?\s+(?:were\s+)?|"
    rb"was\s+)*(?:discussed|spoke|"
    rb"talked|conferred|d/w|met|met with|called|paged|notified|per|via|witness\w*|updated|contacted|"
    rb"reviewed)\b", _I)  # fmt: skip
_SUBJECTS = re.compile(rb"\b(?:he|she|they|I|we|it|patient|pt)\b", _I)
_VERBISH = re.compile(
    rb"\b(?:is|was|were|are|has|had|have|been|be|will|would|did|does|to|with|by|of|from|for|at|on|in|into|than|"
    rb"about|"
    rb"against|like|as|see|saw|sees|seen|told|asked|lives?|lived|denies|states|reports|said|says|found|referred|"
    rb"consulted|"
    rb"follows|followed|beside|has|closest|hears|works|stayed|plays|shares|fired|sat|sits|named|"
    rb"called)\b", _I)  # fmt: skip
_LEAD = re.compile(rb"^(?:\W|\b(?:and|but|when|because|after|before|while|until|then|that|if|since|so|although|"
    rb"who|his|her|the|"
                   rb"a|an|my|our|this|today|yesterday)\b)*", _I)  # fmt: skip
_PREDICATE = re.compile(
    rb"(?:\b(?:is|was|as|be|being|became|become|becoming|remains?|who(?:'s| is))\s+|[,:]\s*)(?:also\s+)?(?:an?|"
    rb"the)\s+(?:[a-z'-]+\s+){0,3}$"
    rb"|\b(?:is|was)\s+(?:also\s+)?(?:my|our)\s+$", _I)  # fmt: skip
# A full stop after a title or an initial ends no sentence.
_STOP = re.compile(
    # It begins with one of a few signs, which is searched for fast.
    rb"[\n!?:.](?:(?<=\n)|(?<=[!?])[!?]*(?=[\s,)\"\x27]|$)|(?<=\w:)(?!\s+[a-z])(?=\s|,|$)|(?<=\.)(?=[\s,)\"\x27]|$)"
    rb"(?<!Dr\.)(?<!DR\.)(?<!dr\.)(?<!Mr\.)(?<!MR\.)(?<!Mrs\.)"
    rb"(?<!Ms\.)(?<!MS\.)(?<!MRS\.)(?<!\bSt\.)(?<!\bvs\.)(?<!Drs\.)(?<![JS]r\.)(?<!\b[A-HJ-Z]\.))"
)
_FAMILY = re.compile(
    rb"(?:\bfamily\s+(?:medical\s+)?(?:history|hx)\b|\bFAMILY\s+HX|\bF\.?H\.?x?\b|"
    rb"\bFamHx)(?:/\w+)?[^\w\n]{0,6}[:,]", _I)  # fmt: skip
_SECTION = re.compile(rb"(?:^|[\n.,])\s*(?:[A-Z][A-Z /&-]{3,}|[A-Z][A-Za-z ]{2,28}):")


def in_family_history(before: bytes) -> bool:
    """Whether the last heading before is that of the family history.

    >>> in_family_history(b"PMH: none. FAMILY HISTORY: Mother had "), in_family_history(b"FH: CAD.\\nHEENT: he ")
    (True, False)
    """
    found = [*_FAMILY.finditer(before)][-1:]
    if not found:
        return False
    end = found[0].end()
    return not _SECTION.search(before, end) and b"\n\n" not in before[end:]


@lru_cache(maxsize=256)
def sentences(text: bytes) -> tuple[int, ...]:
    """Where sentences begin, after the first: no full stop of a title or of an initial ends one.

    >>> sentences(b"Seen by Dr. A. Lee. He left.")
    (19, 28)
    """
    return tuple(stop.end() for stop in _STOP.finditer(text))


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A pronoun in its context.

    Attributes:
        word: in lower case.
        start: where it stands.
        first: where ``before`` begins.
        before, after: the text around it.
        mentions: persons named in ``before``, in order, who may be meant.
        earlier: pronouns of the same gender in ``before``.
        infant: whether the patient is a newborn.
        capital: whether it is written with a capital: a heading ends before "He", and none before "he".
    """

    word: str
    start: int
    first: int
    before: bytes
    after: bytes
    mentions: Sequence[Mention]
    earlier: Sequence[Earlier]
    infant: bool
    capital: bool


def role_of(word: str, before: bytes, after: bytes) -> str:
    """``subject``, ``object``, ``own`` or ``self``.

    >>> role_of("her", b"gave ", b" a pill"), role_of("her", b"in ", b" leg")
    ('object', 'own')
    """
    if word in ("he", "she"):
        return "subject"
    if word in ("himself", "herself"):
        return "self"
    if word != "her":
        return "object" if word == "him" else "own"
    odds = by_words(last_word(before[-60:].decode(errors="ignore")), first_word(after[:60].decode(errors="ignore")))
    return "own" if odds > 0 else "object"


def meant(one: Pronoun) -> Mention | None:
    """The person whom it means, or None: the patient."""
    bounds = [*sentences(one.before + (b"A" if one.capital else b"a"))]
    here = bounds[-1] if bounds else 0
    last = bounds[-2] if len(bounds) > 1 else 0
    while len(bounds) > 1 and not one.before[bounds[-2] : bounds[-1]].strip(b" .,:\n"):  # a heading's own sign
        bounds.pop(-2)
        last = bounds[-2] if len(bounds) > 1 else 0
    person = _one_of(one, here) or _person(one, here, last)
    if person is None:
        return None
    role = role_of(one.word, one.before, one.after)
    if person.plural:
        return person if role in ("subject", "own") else None
    judge = {"subject": _subject, "object": _object, "own": _own, "self": _self}[role]
    return person if judge(one, person, here) else None


def _one_of(one: Pronoun, here: int) -> Mention | None:
    """One of several who were named before: "One of them lost his leg", "The younger one"."""
    if not _ONE_OF.match(one.before, here) or any(
        was.patient and was.start - one.first >= here for was in one.earlier
    ):
        return None
    several = [person for person in one.mentions if person.plural]
    return several[-1] if several else None


_ONE_OF = re.compile(
    rb"\W*(?:one of (?:them|whom|these)|the (?:older|younger|eldest|oldest|youngest|other|first|"
    rb"second)(?: one)?)\s+(?!\w+er\b)(?:is|was|has|had|lost|said|says|also|died)\b",
    _I,
)


def _person(one: Pronoun, here: int, last: int) -> Mention | None:
    """Who was named last in this sentence or the one before, and is no mere description of another."""
    chained = any(not was.patient and was.start - one.first >= last for was in one.earlier)
    begin = 0 if chained else last
    for person in reversed(one.mentions):
        at = person.start - one.first
        if at < begin:
            return None
        if person.kind == PATIENT:
            lead = one.before[_clause(one.before, at) : at]
            if len(lead.split()) <= 2 and not _VERBISH.search(lead):
                return None
            if re.search(rb"(?:\b(?:and|then|that|because|when|if)\s+|,\s*)(?:the\s+)?$", lead, _I) and _DOES.match(
                one.before, person.end - one.first
            ):
                return None
            continue
        if (
            person.plural
            or _MANY.match(one.before, person.end - one.first)
            or _PREDICATE.search(one.before[max(0, at - 40) : at])
        ):
            continue
        if not one.infant and one.before[person.end - one.first : person.end - one.first + 2] in (b"'s", b"\xe2\x80"):
            continue
        return person if at >= here else _leading(one, person, begin)
    return None


def _leading(one: Pronoun, person: Mention, begin: int) -> Mention:
    """Of those in one sentence who heads it, not who was named last: "Dad said he talks as his brother did"."""
    if _heads(one, person):
        return person
    at = person.start - one.first
    bounds = [begin, *(end for end in sentences(one.before[:at]) if end > begin)]
    for other in one.mentions:
        named = bounds[-1] <= other.start - one.first < at
        if named and other.kind != PATIENT and not other.plural and _heads(one, other):
            return other
    return person


_MANY = re.compile(rb"(?:\s+and\s+(?:\w+\s+)?\w+)?\s+(?:both\s+)?(?:are|were|have|live|feel|want|agree|take)\b", _I)
_DOES = re.compile(rb"\s+(?:\w+ly\s+|then\s+|also\s+)?(?:has|had|was|is|did|will|would|may|can|\w+ed|\w+s)\b", _I)


def _clause(before: bytes, at: int) -> int:
    """Where the clause begins in which something stands."""
    bounds = sentences(before[:at])
    begin = bounds[-1] if bounds else 0
    inner = [
        found.end()
        for found in re.finditer(
            rb";\s*|,\s*(?:and|but|so)\s+|,\s+|\b(?:because|when|while|that|until|although|since|after|before)\s+",
            before[begin:at],
        )
    ]
    return begin + inner[-1] if inner else begin


_PATIENTS_OWN = re.compile(rb"^(?:patient|pt)(?:'s|\xe2\x80\x99s)\s+", _I)


def _heads(one: Pronoun, person: Mention) -> bool:
    """Whether the person is the subject, or the topic, of the clause it is named in."""
    if re.match(rb"\s*,?\s*who\b", _between(one, person)):
        return True
    at = person.start - one.first
    lead = one.before[_clause(one.before, at) : at]
    bounds = sentences(one.before[:at])
    whole = one.before[bounds[-1] if bounds else 0 : at]
    if _TOPIC.match(whole) and not _SUBJECTS.search(_LEAD.sub(b"", whole).replace(b"I ", b"").replace(b"we ", b"")):
        return True
    rest = _PATIENTS_OWN.sub(b"", _LEAD.sub(b"", lead))
    if person.kind == KIN and re.search(rb"\b(?:has|had)\s+(?:an?|one)\s+(?:\w+\s+)?$", rest, _I):
        return not sentences(_between(one, person))
    return not _VERBISH.search(rest) and not _SUBJECTS.search(rest) and len(rest.split()) <= 5


def _between(one: Pronoun, person: Mention) -> bytes:
    return one.before[person.end - one.first :]


def _verbs(after: bytes) -> bytes:
    """The verb after auxiliaries and adverbs, or blank."""
    found = _VERB.match(after)
    return found.group(1).lower() if found else b""


_BEING = re.compile(rb"\s+(?:\w+ly\s+)?(?:is|was|'s)\b", _I)
_HAVING = re.compile(rb"\b(?:has|had)\s+(?:\w+ly\s+|also\s+|never\s+|not\s+)*$", _I)


def _does(after: bytes) -> bytes:
    """The verb that tells what somebody does; ``is`` where it tells what somebody is or has ("has nocturia")."""
    found = _VERB.match(after)
    if not found or _BEING.match(after):
        return b"is"
    verb = found.group(1).lower()
    return b"is" if _HAVING.search(after[: found.start(1)]) and not verb.endswith((b"ed", b"en")) else verb


_STRONG = _verbs_of("clinician_verbs_alone")
_YOUNG = re.compile(
    rb"\s+was\s+(?:only\s+)?(?:an?\s+(?:baby|child|teen\w*|infant|boy|girl|toddler)|young|little|one|two|three|"
    rb"four|five|six|seven|"
    rb"eight|nine|ten|eleven|twelve|1[0-7]|[1-9])\b(?!\d)", _I)  # fmt: skip
_DEAD = re.compile(rb"\b(?:died|deceased|passed away|killed|suicide|death)\b", _I)
_PRESENT = re.compile(rb"\s+(?:also\s+|still\s+)?(?:is|has|does|will|denies|[a-z]+s)\b")
_HAS_KIN = re.compile(
    rb"\s+(?:also\s+)?(?:has|had)\s+(?:\w+\s+){0,3}(?:sisters?|brothers?|sons?|daughters?|children|siblings?|"
    rb"uncles?|aunts?|cousins?)\b", _I)  # fmt: skip


_WEAK = _verbs_of("witness_verbs_of_others")


_KIN_NEAR = re.compile(
    rb"^[^,]{0,40}\b(?:his|her)\s+(?:\w+\s+)?(?:sisters?|brothers?|mother|father|sons?|daughters?|"
    rb"parents|children|family)\b"
)


def _patients_own(one: Pronoun, person: Mention) -> bool:
    """What is said of the person again by its own word, or of somebody's relatives: the patient is the subject."""
    word = one.before[person.start - one.first : person.end - one.first].lower()
    clause = re.split(rb"[.;\n]", one.after)[0].lower()
    own = re.search(rb"\b(?:his|her)\s+(?:\w+\s+)?" + re.escape(word), clause)
    if person.kind == KIN and sentences(_between(one, person)) and _KIN_NEAR.search(clause):
        return True
    return bool(own) or (person.kind in (KIN, CHILD) and bool(_HAS_KIN.match(one.after)))


_ANY_PASSIVE = re.compile(
    rb"\s+(?:also\s+|then\s+)?(?:is|was|has been|had been|will be|would be)\s+(?:(?:also|then|never|not|\w+ly)\s+)*"
    rb"(?!paged|notified|present|called|contacted|consulted|informed|aware|scrubbed)(?:\w+ed|given|taken|seen|"
    rb"born|put|sent|to)\b", _I)  # fmt: skip


def _object_follows(word: str, after: bytes) -> bool:
    """Whether the verb's object is a pronoun of the same gender: then they are two persons."""
    wanted = rb"him" if word == "he" else rb"her"
    found = re.match(
        rb"((?:\s+(?!and\b|to\b|that\b|because\b|when\b|if\b)[A-Za-z'-]+){1,3}?\s+(?:to\s+\w+\s+)?)"
        + wanted
        + rb"\b(?!\s*own)",
        after,
        _I,
    )
    if not found:
        return False
    return word == "he" or role_of("her", found.group(1), after[found.end() :]) == "object"


_FIRST_PERSON = re.compile(
    rb"\s+(?:is|was) (?:aware|willing|concerned|worried)|\s+needs? time|\s+(?:cannot|can't|can not|could not|"
    rb"was unable to|is unable to) (?:care|manage|wake|get|lift|cope|draw)", _I)  # fmt: skip
_WISHES = re.compile(rb"\s+would\s+(?:not\s+)?want\b")
_OPERATES = re.compile(rb"\b(?:operate|intervene)\b", _I)
_HIMSELF = re.compile(
    rb"\s+(?:also\s+)?(?:has|had|is|was|takes|took|uses)\s[^.;,]{1,32}\b(?:him|her)self\b(?!\s+(?:to|of|in|on|at|from|with))",
    _I,
)
_PAREN = re.compile(rb"\s*\([^)]{1,40}$")
_PER = re.compile(rb"(?:^|[.;:\n,])\s*(?:per|according to|via|as per)\s+(?:\w+\s+){0,3}$", _I)
_DID_TO = re.compile(rb"\s+(?:then\s+)?\w+(?:ed|t)\s+(?:an?|the|his|her|him|to)\b", _I)
_PRESENT_ONLY = re.compile(
    rb"\s*(?:(?:is|was)\s+)?(?:present|at (?:the )?bedside|notified|paged|aware|called|involved|here|updated)\b"
    rb"[^.;]{0,30}[.;]\s*$", _I)  # fmt: skip
_COMPLAINS = frozenset({b"denies", b"denied", b"complains", b"presents", b"presented", b"underwent", b"tolerated"})
_TO_PATIENT = frozenset({b"found", b"heard", b"told", b"gave", b"called", b"stayed", b"brought"})


def _subject(one: Pronoun, person: Mention, here: int) -> bool:
    after = one.after
    verb = _verbs(after)
    if one.infant and person.kind == KIN and _MOTHERS.match(after):
        return True
    if person.kind == CHILD:
        return _child(one, person, same=person.start - one.first >= here)
    if _object_follows(one.word, after):
        return True
    if _patients_own(one, person):
        return False
    if _HIMSELF.match(after) and _topic_before(one, person, here):
        return True
    staff = person.kind == STAFF
    passive = bool(_PASSIVE.match(after)) or (staff and bool(_ANY_PASSIVE.match(after)))
    passive = passive and (staff or not _INFORMED.match(after))
    if person.start - one.first < here:
        topic = _topic_before(one, person, here)
        if passive and not (topic and not staff and _stative(_between(one, person)) and not _given(one, person)):
            return False
        return (topic or not _patient_since(one, person)) and _next_sentence(one, person, here, verb)
    between = _between(one, person)
    if _PER.search(one.before[: person.start - one.first]) and not _SAID.search(between):
        return staff and verb in _STRONG and not _MODAL.match(after)
    heads = _heads(one, person)
    if heads and _SAID.search(between):
        said = _staff_said if staff else _others_said
        return not passive and said(after, between, verb)
    return _same_sentence(one, person, verb, heads=heads, passive=passive)


def _staff_said(after: bytes, between: bytes, verb: bytes) -> bool:
    """Whether a clinician who said something ("Dr. Smith said he") is its subject too."""
    if _THOUGHT.search(between):
        return bool(_OPERATES.search(after))
    if verb in _PATIENTS - {b"needs"} or (_COULD.match(after) and not _can_be_staff(verb, after)):
        return False
    return bool(_MODAL.match(after)) or verb in _STAFFS


_ASKED = re.compile(
    rb"\b(?:asks?|asked|wonders?|wondered)\b[^.]{0,20}\b(?:if|whether)\s*$|\b(?:concerned|worried)\s+that\s*$", _I
)


def _others_said(after: bytes, between: bytes, verb: bytes) -> bool:
    """Whether a relative or somebody else who said something is its subject too: mostly it is the patient."""
    if verb in (b"stopped", b"drinks", b"left") or _WISHES.match(after):
        return False
    if _ASKED.search(between):
        return bool(_FIRST_PERSON.match(after))
    return verb in _WITNESSES or bool(_MODAL.match(after) or _FIRST_PERSON.match(after))


def _same_sentence(one: Pronoun, person: Mention, verb: bytes, *, heads: bool, passive: bool) -> bool:
    between, staff = _between(one, person), person.kind == STAFF
    linked = bool(_LINKED.search(between))
    if passive and not (heads and linked and not staff and _stative(between)):
        return False
    if _PAREN.match(between):
        return not staff
    named = one.before[person.start - one.first : person.end - one.first].lower()
    if named == b"interpreter" and verb in (b"says", b"states", b"reports", b"denies"):
        return False
    known = _STAFFS if staff else _WITNESSES
    if linked:
        if not heads:
            return staff and verb in known and not _patient_since(one, person)
        given = _given(one, person)
        theirs = verb in _PATIENTS and (staff or given or verb in _COMPLAINS)
        return not theirs and not (staff and given and verb not in known) and not _patient_since(one, person)
    if _CAUSE.search(between):
        if staff:
            return heads and verb in _STRONG
        mine = verb in known or (_stative(between) and verb not in _PATIENTS)
        return heads and mine and not _YOUNG.match(one.after)
    return heads and verb in known and not _patient_since(one, person)


def _given(one: Pronoun, person: Mention) -> bool:
    """Whether the patient is an object of what the person did."""
    return any(was.patient and not was.subject and was.start > person.start for was in one.earlier)


def _can_be_staff(verb: bytes, after: bytes) -> bool:
    """Whether what somebody can or should do is a clinician's to do."""
    return verb in _STAFFS and not _ALLOWED.match(after)


_ALLOWED = re.compile(rb"\s+(?:could|can|should|may)\s+(?:safely\s+)?(?:stop|start|see|take|return|call)\b", _I)


def _stative(text: bytes) -> bool:
    return not _CARED.search(text)


def _patient_since(one: Pronoun, person: Mention) -> bool:
    """Whether the patient has been the subject since the person was named."""
    return any(was.patient and was.subject and was.start > person.start for was in one.earlier)


def _next_sentence(one: Pronoun, person: Mention, here: int, verb: bytes) -> bool:
    """Whether the person is taken up by the subject of the next sentence."""
    between = _between(one, person)
    if not _OPENS.fullmatch(one.before[here:]):
        return False
    only_there = bool(_PRESENT_ONLY.match(between))
    mine = any(was.patient and was.start > person.start for was in one.earlier)
    topic = _topic_before(one, person, here)
    if person.kind == STAFF:
        return _staff_next(one, person, verb, topic=topic and not mine, chained=topic, only_there=only_there)
    if person.kind == OTHER and only_there:
        return verb not in _PATIENTS and bool(_DID_TO.match(one.after))
    if one.infant and person.kind == KIN:
        return bool(topic and _INFORMED.match(one.after))
    if _PARAGRAPH.search(between):
        return verb in _WITNESSES - _WEAK
    if topic and _MINDS.match(one.after):
        return True
    if topic and _CARED.search(between) and _INFORMED.match(one.after):
        return True
    if not _heads(one, person):
        return verb in _TO_PATIENT | _VISITS
    if verb in _COMPLAINS or (_DEAD.search(between) and _PRESENT.match(one.after)):
        return False
    if _PER.search(one.before[: person.start - one.first]):
        return verb in _WITNESSES - _WEAK
    if topic and (verb in _TELLS if mine else not only_there and _does(one.after) not in _PATIENTS | _ANYONE):
        return True
    if mine and _CARED.search(between):
        return verb in _WITNESSES - _WEAK or bool(_MODAL.match(one.after))
    return verb in _WITNESSES - {b"did", b"hit"} or (_stative(between) and not mine and not only_there)


def _staff_next(one: Pronoun, person: Mention, verb: bytes, *, topic: bool, chained: bool, only_there: bool) -> bool:
    """Whether a clinician is the subject of the next sentence too: what clinicians do, plan and think."""
    if only_there and verb not in _PATIENTS and _DID_TO.match(one.after):
        return True
    if chained and _OPINES.match(one.after):
        return True
    if chained and _MODAL.match(one.after) and verb in _STAFFS - {b"return", b"call", b"take", b"start"}:
        return True
    if topic and not only_there and _does(one.after) not in _PATIENTS | _ANYONE:
        return True
    return verb in (_STAFFS - {b"did", b"felt", b"got"} if topic else _STRONG) and verb not in _PATIENTS


def _topic_before(one: Pronoun, person: Mention, here: int) -> bool:
    """Whether the sentence before is about the person: it begins with a pronoun that means them, or they head it."""
    bounds = [0, *(end for end in sentences(one.before[:here]) if end < here)]
    while len(bounds) > 1 and not one.before[bounds[-1] : here].strip(b" .,:\n"):
        bounds.pop()
    for was in one.earlier:
        if bounds[-1] <= was.start - one.first < here and was.subject:
            if _OPENS.fullmatch(one.before[bounds[-1] : was.start - one.first]):
                return not was.patient
            break
    if any(
        bounds[-1] <= was.start - one.first < here
        and not (was.subject or was.patient)
        and _I_TOLD.search(one.before[bounds[-1] : was.start - one.first])
        for was in one.earlier
    ):
        return True
    return person.start - one.first >= bounds[-1] and _heads(one, person)


_TELLS = _verbs_of("telling_verbs")
# What patients do as often as those who look after them: no sign of who is meant.
_ANYONE = _verbs_of("anyone_verbs")
_VISITS = _verbs_of("visiting_verbs")
# What a clinician thinks and is about, and what somebody who looks after the patient feels, or is told.
_OPINES = re.compile(
    rb"\s+(?:also\s+)?(?:(?:did|does)\s+not\s+|didn't\s+|doesn't\s+)?(?:feels?|felt|thinks?|thought|"
    rb"believes?|believed)\s+(?:that|it|this|the|there)\b|\s+(?:is|was|will be)\s+(?:also\s+)?(?:happy to|willing to|"
    rb"available|aware|in agreement|teaching|planning|following|covering|arranging|recommending|"
    rb"going to (?:see|call|operate|review|arrange))\b", _I)  # fmt: skip
_MINDS = re.compile(
    rb"\s+(?:is|was|seems|appears|became)\s+(?:also\s+|very\s+|quite\s+|understandably\s+)*(?:concerned|worried|tearful|"
    rb"upset|frustrated|supportive|overwhelmed|grateful|appreciative)\b|"
    rb"\s+(?:does not|doesn't|did not|didn't)\s+(?:know|see|witness|notice)\b|"
    rb"\s+(?:insists?|insisted|requests?|requested|would like|asks?|asked|wonders)\b", _I)  # fmt: skip
_INFORMED = re.compile(
    rb"\s+(?:was|has been|were)\s+(?:also\s+)?(?:told|informed|advised|updated|reassured|asked)\b", _I
)
_PARAGRAPH = re.compile(rb"[.!?]\s*\n")
_OPENS = re.compile(
    rb"[\s,\"']*(?:(?:but|and|so|then|today|also|yesterday|later|however|initially|apparently|subsequently|"
    rb"(?:last|this|that|on)\s+\w+)\b,?\s*)?", _I)  # fmt: skip


def _child(one: Pronoun, person: Mention, *, same: bool) -> bool:
    """A baby of the patient's: what is said of babies."""
    if re.match(
        rb"\s+(?:weighed|weighs|was\s+(?:born|delivered|vigorous|transferred|taken|handed)|is\s+(?:in|rooming|"
        rb"doing|breech|transverse|vertex|at the|growing|nursing|feeding|well\b)|was\s+(?:readmitted|"
        rb"suctioned|dried|breech)|has\s+(?:thrush|gained)|had\s+(?:spontaneous|good|a\s+(?:strong|vigorous))|"
        rb"measures|cried|latched|remains|spent|went\s+home|required|requires)",
        one.after,
        _I,
    ):
        return not _patient_since(one, person)
    return (
        same
        and _heads(one, person)
        and bool(_LINKED.search(_between(one, person)))
        and not _patient_since(one, person)
    )


def _object(one: Pronoun, person: Mention, here: int) -> bool:
    """An object is not the subject of its own verb: where that is the patient, it is the other person."""
    if person.kind != STAFF and _I_TOLD.search(one.before[here:]) and not one.infant:
        at = person.start - one.first
        if (_topic_before(one, person, here) and at < here) or (at >= here and _heads(one, person)):
            return True
    for was in reversed(one.earlier):
        if was.start - one.first < here:
            break
        gap = one.before[was.end - one.first :]
        if was.subject:
            if person.start > was.start and not re.search(rb"\b(?:and|but)\s+\w+(?:\s+\w+)?\s*$", one.before):
                return False
            near = re.fullmatch(
                rb"(?:\s+(?!and\b|that\b|because\b|when\b|while\b|if\b|asked\b|requests?\b|requested\b|"
                rb"told\b)[A-Za-z'-]+){1,5}\s*",
                gap,
            )
            joined = re.fullmatch(
                rb"(?:\s+[A-Z]\w+)?\s*(?:and|but)\s+\w+(?:\s+(?:with|by|for|to|on|at))?\s*", _between(one, person)
            )
            if joined and was.patient and was.start < person.start and person.kind != STAFF:
                return True
            return bool(near) and was.patient and not _TAKES_ALONG.search(gap)
    return bool(re.search(rb"\b(?:wake|feed|visit|hold)\s+$", one.before)) and person.kind == CHILD


_I_TOLD = re.compile(
    rb"(?:^|[,;]|\band)\s*(?:I|we)\s+(?:also\s+|then\s+|again\s+|have\s+)*(?:told|informed|advised|reassured|updated|thanked|"
    rb"explained\s+to|spoke\s+with|reminded)\s+$", _I)  # fmt: skip
_TAKES_ALONG = re.compile(
    rb"\b(?:keeps?|kept|carr(?:y|ies|ied)|brings?|brought|has|had|takes?|took)\b.*\bwith\s*$", _I
)


_OF_PATIENT = re.compile(
    rb"\s+(?:(?:is|was|remains|serves as|acts as)\s+(?:also\s+|still\s+)?|(?:at|from|in)\s+)", _I
)


def _own(one: Pronoun, person: Mention, here: int) -> bool:
    """A possessive: whose thing it is."""
    after, between = one.after, _between(one, person)
    same = person.start - one.first >= here
    heads = _heads(one, person)
    if (
        one.infant
        and person.kind == KIN
        and re.match(rb"\s+(?:prenatal|labs|pregnanc|labor|membranes|serolog|milk)", after, _I)
    ):
        return True
    if _RELATED.match(after) and not re.match(rb"\s+own\b", after):
        return False
    subjects = [was for was in one.earlier if was.subject and was.start > person.start]
    if subjects and subjects[-1].patient:
        return False
    if person.kind == STAFF:
        return (bool(_STAFF_NOUNS.match(after)) and (heads or bool(subjects))) or (
            bool(re.search(rb"\b(?:in|with|by|to|from|of|at)\s+$", between))
            and bool(_STAFF_NOUNS.match(after))
            and same
        )
    if _AGE.match(after):
        return True
    if _OF_PATIENT.fullmatch(between) or (between.endswith(b" at ") and re.match(rb"\s+age\b", after)):
        return False
    if subjects:
        said = one.before[subjects[-1].end - one.first :]
        if _OWNED.match(after) or _CARED.search(said):
            return bool(_OWNED.match(after))
        took = rb"\s+(?:also\s+)?(?:is|has|had|was|lost|took|broke|fractured|injured|hurt|sold|quit|cut|washed)\b"
        return bool(re.match(took, said)) and person.kind != CHILD
    if person.kind == OTHER and not same:
        return bool(_OWNED.match(after)) and not one.before[here:].strip()
    if person.kind == CHILD:
        return (
            bool(re.fullmatch(rb"\s*(?:and\s*)?", one.before[max(here, _clause(one.before, len(one.before))) :]))
            and heads
        )
    if not heads:
        return (
            bool(_OWNED.match(after))
            and same
            and bool(re.search(rb"\b(?:used|in|with|from)\s+$", between))
            and not _CARED.search(between)
        )
    if same:
        return bool(_OWNED.match(after)) or not _CARED.search(between)
    return not one.before[here:].strip() and (_stative(between) and person.kind != STAFF)


def _self(one: Pronoun, person: Mention, here: int) -> bool:
    for was in reversed(one.earlier):
        if was.start - one.first < here:
            break
        if was.subject:
            return not was.patient
    return (
        person.start - one.first >= here
        and _heads(one, person)
        and not re.search(rb"\b(?:patient|pt)\s+$", one.before, _I)
    )
