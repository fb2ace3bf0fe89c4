"""Swapping many texts at once equals its definition: one term after the other, in plain Python."""

import re
from collections import Counter, namedtuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from swapbias.swapping.agreement import agreeing, article_before
from swapbias.swapping.gendered import is_pronoun, replacement_by_rules
from swapbias.swapping.neighbours import NEAR, WINDOW
from swapbias.swapping.possessives import log_odds_of_his
from swapbias.swapping.rule_tables import DEMOGRAPHIC, GLUED, word_list
from swapbias.swapping.sex_columns import REACH, in_sex_column
from swapbias.swapping.swapper import Swapper
from swapbias.swapping.table import COUNTED_BIRTHS, clinical_terms, inclusive_forms, kept_phrases
from swapbias.swapping.word_case import as_written, in_case, is_phrase
from tests.tables import rows_of

SWAPPERS = {name: Swapper(name) for name in ("resolved", "paper")}
LETTER = r"[^\W\d_]"
BIRTHS = re.compile(
    # Signs and digits of ASCII alone, but no letter of any script before: "日本G2P1" is one word.
    rf"(?<!{LETTER})(?a:g\s?\d{{1,2}}[\s,;-]{{0,3}}p\s?\d|(?<![0-9])para\s{{0,2}}[:-]?\s{{0,2}}(?<!para)\d)",
    re.I,
)
TITLES = ("mr", "ms", "mrs", "miss")


def pattern_of(table):
    plain = clinical_terms().keys() - COUNTED_BIRTHS.keys()
    kept = {*kept_phrases(), *inclusive_forms()} if table.context else set()
    terms = sorted({*table.terms, *plain, *kept}, key=len, reverse=True)
    spellings = "|".join(
        ("(?<!['’])" if re.match("[a-z][^a-z]", term) else "")
        + r"\s+".join(re.escape(part).replace("'", "['’]") for part in term.split())
        + (f"(?!{LETTER})" if term[-1].isalpha() else "")
        for term in terms
    )
    return re.compile(rf"(?<!{LETTER})(?:{spellings})", re.IGNORECASE)


PATTERNS = {name: pattern_of(swapper.table) for name, swapper in SWAPPERS.items()}


def choice_of(term, before, after, table):
    """Choose the word that replaces a term with several counterparts."""
    if table.context and term.choices == {"his", "him"}:
        word = "his" if log_odds_of_his(before, after) > 0 else "him"
    elif table.context and term.choices == {"her", "hers"}:
        word = "hers" if is_pronoun(before, after) else "her"
    else:
        return 0
    return [counterpart.lower() for counterpart in term.others].index(word)


def cased(term, written, target):
    if is_phrase(term):
        return as_written(term, written, target)
    letters = [letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" for letter in written[:2]]
    letters.append(written[-1] not in "abcdefghijklmnopqrstuvwxyz")
    return in_case(target, 2 if all(letters) else int(letters[0]))


def is_plural(word):
    low = word.lower()
    singular = ("his", "hers", "ms", "mrs", "sis")
    return low[-1:] == "s" and low[-2:] != "ss" and low not in singular


def possessive(written, word, rest):
    """(the word, signs of the rest that it takes the place of): "ladies'" and "gentlemen's"."""
    mark = rest[:1]
    after = rest[1:]
    if not word or mark not in ("'", "’") or is_plural(word) == is_plural(written):
        return word, 0
    if is_plural(written) and not after[:1].isalnum():
        return word + mark + ("S" if word.isupper() else "s"), 1
    if is_plural(word) and after[:1] in ("s", "S") and not after[1:2].isalnum():
        return word + mark, 2
    return word, 0


Change = namedtuple("Change", "start end upto word target side before after low")


def join_pieces(changes, text):
    """ "he or she", of which both become the same word, is that word once."""
    # the second of a pair is no first of the next
    done = []
    last = None
    for change in changes:
        before = done[-1] if done else None
        joined = (
            before
            and before is not last
            and before.side == -change.side != 0
            and before.word.lower() == change.word.lower()
        )
        between = text[before.upto : change.start] if before else ""
        bracketed = re.fullmatch(r"\s?/?\s?\((or\s)?", between, re.I | re.A)
        upto = change.upto
        if bracketed and text[upto : upto + 1] == ")":
            upto += 1
        elif re.fullmatch(r"\s?/\s?|\s+(and\s?/\s?)?or\s+", between, re.I | re.A):
            third = re.compile(r"\s?/\s?(they|them|theirs?)\b", re.I | re.A).match(text, upto)
            if third and third[1].lower() == change.word.lower():
                upto = third.end()
        else:
            joined = False
        if joined:
            last = change._replace(
                start=before.start, word=before.word, before=before.before, upto=upto
            )
            done[-1] = last
        else:
            done.append(change)
    return join_titles(done, text)


def join_titles(changes, text):
    """Titles that are removed are removed with what joins them."""
    done = []
    for change in changes:
        before = done[-1] if done else None
        removed = before and not before.word + change.word and {before.low, change.low} < {*TITLES}
        between = text[before.upto : change.start] if before else ""
        joins = r"\.?\s?(/|&|,|\band\b|\bor\b)\s?"
        if removed and re.fullmatch(joins, between, re.I | re.A):
            done[-1] = change._replace(start=before.start)
        else:
            done.append(change)
    return done


def slow(text, name, mode):
    """(text, replaced, specific, side, terms) of one text."""
    table = SWAPPERS[name].table
    edits = {}
    at = 0
    specific = len(BIRTHS.findall(text))
    terms = Counter()
    sides = 0
    swapped = []
    for match in PATTERNS[name].finditer(text):
        written, (start, end) = match.group(), match.span()
        low = " ".join(written.lower().replace("’", "'").split())
        beside = text[start - 1 : start] + text[end : end + 1]
        if low not in DEMOGRAPHIC | GLUED and any(sign in "0123456789" for sign in beside):
            continue
        specific += low in clinical_terms()
        inclusive = {one.text: one for one in table.inclusive} if mode == "neutralise" else {}
        term = table.terms.get(low) or inclusive.get(low)
        if term is None:
            continue
        before = text[:start].encode()[-WINDOW:].decode(errors="ignore")
        after = text[end:].encode()[:WINDOW].decode(errors="ignore")
        says = (
            replacement_by_rules(written, before[-NEAR:], after[:NEAR]) if table.context else "yes"
        )
        if says == "no" and low in ("m", "f") and written.isupper():
            far = text[:start].encode()[-REACH:].decode(errors="ignore")
            says = "yes" if table.context and in_sex_column(far, text[end:]) else "no"
        if says == "no":
            continue
        choice = choice_of(term, before, after, table) if says == "yes" else term.others.index(says)
        target = (term.others if mode == "swap" else term.neutral)[choice]
        terms[f"{low} -> {target.lower() or '(removed)'}"] += 1
        side = 0 if low in inclusive else 2 * term.sides[choice] - 1
        sides += side
        word, length = possessive(written, cased(term, written, target), text[end:])
        swapped.append(Change(start, end, end + length, word, target, side, before, after, low))
    for edit in join_pieces(swapped, text) if mode == "neutralise" and table.context else swapped:
        start = edit.start
        end = edit.end
        low = edit.low
        word = edit.word
        written = text[start:end]
        for verb in agreeing(edit.before, edit.after, plural=True) if edit.target == "they" else ():
            if verb.old.lower() not in table.terms:
                position = (end if verb.start >= 0 else start) + verb.start
                edits.setdefault(position, (position + len(verb.old), verb.new))
                terms[f"{verb.old.lower()} -> {verb.new.lower()}"] += 1
        end = edit.upto
        if not word:
            end += low in TITLES and text[end : end + 1] == "."
            if start > at and text[start - 1] == " ":
                start -= 1
            elif (start == at or text[start - 1] in "\n(") and text[end : end + 1] == " ":
                end += 1
        edits[start] = (end, word)
        at = end
        change = article_before(
            text[:start], text[start : start + 20], word or text[end : end + 20]
        )
        if change and table.context:
            edits[start + change[0]] = start + change[0] + len(change[1]), change[2]
            terms[f"{change[1].lower()} -> {change[2].lower()}"] += 1
    done = ""
    at = 0
    for start, (end, word) in sorted(edits.items()):
        done = done + text[at:start] + word
        at = end
    return done + text[at:], len(edits), specific, int(np.sign(sides)), terms


def check(texts, name, mode):
    result = SWAPPERS[name].run(texts, mode)
    wanted = [slow(text, name, mode) for text in texts]
    assert result.texts.to_pylist() == [expected[0] for expected in wanted]
    numbers = (result.replaced, result.specific, result.sides)
    assert [column.tolist() for column in numbers] == [
        [one[at] for one in wanted] for at in range(1, 4)
    ]
    assert result.terms == sum((one[4] for one in wanted), Counter())


NEARBY_WORDS = [
    "her", "his", "him", "HER", "His", "he", "she", "of", "or", "and", "/", "own", "Then", "bundle", "neu",
    "II", "+", "gas", "ions", "Mary", "Dear", "madam", "hostess",
]  # fmt: skip
FILLERS = [
    "pain", "the", "élève", "45", "y/o", "Sex:", "(", ")", ".", "—", "’s", "'s", "'", "_", "über", "123", "日本",
    "liver", "gave", "sick", "[**Name**]", "___", "don't", "G2P1", "para 2", "para2", "a", "an", "infant",
    "para-aortic", "is", "has", "walks", "also", "\n", "\t", "\x0c", "extraordinarily", "Institute", "G3P2",
    "in NAD", "stain", "negative",
]  # fmt: skip
TERMS = [*SWAPPERS["resolved"].table.terms, *clinical_terms(), *kept_phrases()]
WORDS = st.one_of(st.sampled_from(NEARBY_WORDS), st.sampled_from(FILLERS), st.sampled_from(TERMS))
CASES = st.sampled_from([str, str.lower, str.capitalize, str.upper, str.swapcase])
GAPS = st.sampled_from([" ", " ", " ", "  ", "", "\n", ", ", ". ", "/", "-", "' ", "’ ", " ("])
PIECES = st.tuples(WORDS, CASES, GAPS).map(lambda piece: piece[1](piece[0]) + piece[2])
TEXTS = st.lists(PIECES, max_size=9).map("".join)


@pytest.mark.parametrize("mode", ["swap", "neutralise"])
@pytest.mark.parametrize("name", SWAPPERS)
@example(texts=["日本G2P1 ", "éG2P1", "xpara 2", "日本para 2"])
@example(
    texts=[
        "Is he or she here? HIS/her; a male or female, himself and/or herself",
        "he/she/he or she",
        "a lady or man",
    ]
)
@example(texts=["’s / he ", "s / he", "S/he", "’s/he", "(s)he", "drug(s) he", "SHe", "HERs MRs."])
@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_many_texts_equal_one_by_one(name, mode, texts):
    """Swapping many texts at once equals replacing one term after the other."""
    check(texts, name, mode)


@given(
    texts=st.lists(TEXTS, min_size=1, max_size=6),
    stride=st.integers(1, 40),
    block=st.integers(1, 80),
)
@settings(max_examples=100, deadline=None)
def test_strides_and_blocks(texts, stride, block):
    """The ends of strides and blocks change no text."""
    with (
        patch("swapbias.swapping.matches._STRIDE", stride),
        patch("swapbias.swapping.swapper._BLOCK", block),
    ):
        check(texts, "resolved", "swap")


PREVIOUS = ["of", "gave", "the", "is", "a2b", "it's", "és", ".", ";", "own", "x" * 17]
NEXT = ["own", "Then", "liver", "liver2", "livré", "neu", "his", "or him", "_"]
PRONOUNS = st.tuples(
    st.sampled_from(PREVIOUS),
    st.sampled_from([" her", "  her", " his", ".  Her", "\nHIS", "\x0cher"]),
    st.sampled_from([" ", "  ", ", ", ".", "; ", " (", " [**"]),
    st.sampled_from(NEXT),
)


@given(words=st.lists(PRONOUNS, max_size=5))
@settings(max_examples=100, deadline=None)
def test_lookup_beside_pronouns(words):
    """The lookup by the words beside a pronoun equals the rule for its context."""
    text = " ".join(map("".join, words))
    check(["Seen in clinic today.", text, f"{text} her", "his", "her own"], "resolved", "swap")


@pytest.mark.parametrize("mode", ["swap", "neutralise"])
@pytest.mark.parametrize("name", SWAPPERS)
def test_real_reports(clinical, name, mode):
    """Real reports are swapped as the slow definition swaps them."""
    reports = [row["text"] for row in rows_of(clinical / "mtsamples_first_half.csv")]
    plain = name == "resolved" and mode == "swap"
    check(reports if plain else reports[:50], name, mode)
    if plain:
        check([text.upper() for text in reports[:25]], name, mode)


def test_possessive_at_a_row_end(tmp_path):
    """No possessive reaches into the next row, and every text stays whole."""
    rows = ["Brides", "’", "brides", "'", "s"]
    found = SWAPPERS["resolved"].run(pa.array(rows))
    found.texts.validate(full=True)  # every text is whole UTF-8
    assert found.texts.to_pylist() == ["Bridegrooms", "’", "bridegrooms", "'", "s"]
    path = tmp_path / "own.csv"
    path.write_text(
        "male,female\ncounterrevolutio,other\n"
    )  # 16 letters: as many as are compared at once
    own = Swapper(path)
    assert own.swap(["counterrevolutio counterrevolution"]) == ["other counterrevolution"]


@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_text_without_groups_is_stable(texts):
    """Neutralising a neutralised text leaves it as it is."""
    once = SWAPPERS["resolved"].neutralise(texts)
    assert SWAPPERS["resolved"].neutralise(once) == once


def test_first_words_of_kept_phrases():
    """No kept phrase begins with a word such as "the": each of its places in a text would be looked at."""
    phrases = [phrase.split() for phrase in kept_phrases()]
    assert {words[0] for words in phrases if len(words) > 1}.isdisjoint(word_list("closed_words"))
    texts = ["We saw The King's Speech.", "The Two Sister Study has ended."]
    assert SWAPPERS["resolved"].swap(texts) == texts
