"""Rules that turn a clause into questions.

The patterns are English. A question is a real one if that is safe (`When was X founded by Y?`), else the
sentence with the question word in place (`X covers how many hectares?`), else the sentence with a gap that says
what is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import regex

from ragindex_eval.data.drafting.subjects import Clause, PassageTopic, clause_end, runs_on
from ragindex_eval.data.drafting.text import Mention, MentionKind, is_balanced, list_mentions

SLOT = "\x1f"
"""Placeholder of the subject in a question."""

REAL, IN_PLACE, LOOSE, GAP, WORD = range(5)
"""Forms of questions, best first. LOOSE must name the title; WORD asks for a missing rare word."""


@dataclass(frozen=True, slots=True)
class ClauseQuestion:
    """A question with SLOT for its subject, and the sentence it was made from.

    `subject` is "" if there is none. `known`: the subject is a name that can be understood without context.
    """

    text: str
    answer: str
    kind: MentionKind
    form: int
    subject: str
    sentence: str
    known: bool = False

    def about(self, name: str) -> str:
        """Return the question with `name` as its subject."""
        text = self.text.replace(f"“{SLOT}", f"“{capital(name)}").replace(SLOT, name)
        return capital(text)


def capital(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]


# ---------------------------------------------------------------- questions

_WHEN = regex.compile(r"(?:^|\s)(in|on|since|until|by|(?<=\bborn ))(?: (?:early|late|about|around))? ?$")
_WORK = regex.compile(
    r" (?:(?!by|of|and|the|about|in|on|from|to|with|that)[\w'’-]+ ){0,6}(film|album|song|single|novel|book|play|opera"
    r"|game|documentary|comedy|drama|musical|miniseries|series|mixtape|EP|compilation)\b"
)
_PARTICIPLE_PHRASE = regex.compile(
    r"(?:is|was|are|were) (?:an?|the|one of) .*?\b((?:first |originally |officially )?(?:founded|formed|established"
    r"|released|composed|invented|directed|written|built|created|published|launched|opened|started|organi[sz]ed"
    r"|incorporated|produced|recorded|discovered|designed|constructed|completed|introduced|developed|born)\b.*)"
)
_BE = regex.compile(r"(is|are|was|were|(?:has|have|had) been|will be|can be) ")
NAME_ENDS = regex.compile(
    r"$|[,.;:]| (?:in|on|at|and|who|which|where|as|by|for|from|to|with|during|is|was|has|had|of|near|under|after|before"
    r"|until|since|when|while|between)\b"
)
_ROLE = (
    "actor|actress|architect|artist|author|band|businessman|city|club|coach|college|company|composer|conductor|country"
    "|county|director|district|emperor|engineer|film|guitarist|island|journalist|king|label|magazine|mountain|musician"
    "|newspaper|novel|novelist|opera|painter|party|philosopher|photographer|physicist|poet|politician|president"
    "|producer|province|publisher|queen|rapper|region|river|sculptor|singer|song|state|station|team|town|university"
    "|village|writer|engine|store|encoder|library|database|format|method"
)
_ROLE_BEFORE = regex.compile(rf"(?:^|\s)(?:the |an? )?(?:[A-Z][a-z]+ )?({_ROLE})(?: of)? $")
_PLURAL = regex.compile(
    r" ((?:[a-z-]{2,} ){0,2}?(?!(?:was|is|has|as|this|its|his|hers|us|thus|plus|times|minus|yes"
    r"|towards|upwards|downwards|besides|across|always|sometimes|perhaps)\b)[a-z]{3,}(?<!s)s"
    r"|people|men|women|children|feet|percent|per cent|km|kilometers)\b"
)
_NO_COUNT = regex.compile(
    r"(?:^|\s)(?:and|to|or|between|of the|the|top|number|than|k|by|first|last|next|all|only|any|these|those|its|their"
    r"|his|her|our|your|my|\S+[’']s|\p{Lu}\S*) $"  # and after a name: a version
)
_VERSION = regex.compile(r"(?:^|\s)\p{Lu}\S* $")
_BEFORE_YEAR = regex.compile(
    r"(?:^|\s)(?:in|on|since|until|till|by|of|from|to|for|before|after|and|between|during|around|about|circa|year|the"
    r"|early|late|\p{Lu}\p{Ll}+,?) $"
)
_LESS_THAN = regex.compile(r"(?: (?:over|about|around|approximately|nearly|almost|some|roughly|at least|at most))? $")
_BASES = (
    "died=die began=begin became=become won=win moved=move joined=join opened=open released=release served=serve "
    "started=start founded=found received=receive graduated=graduate played=play made=make debuted=debut "
    "returned=return married=marry signed=sign published=publish retired=retire ran=run wrote=write took=take "
    "led=lead came=come went=go left=leave lost=lose met=meet spent=spend built=build sold=sell closed=close "
    "ended=end premiered=premiere aired=air appeared=appear earned=earn attended=attend entered=enter "
    "established=establish created=create formed=form launched=launch merged=merge produced=produce "
    "directed=direct recorded=record hosted=host replaced=replace had=have scored=score held=hold gained=gain "
    "contained=contain included=include employed=employ operated=operate has=have contains=contain "
    "includes=include covers=cover holds=hold employs=employ operates=operate serves=serve takes=take costs=cost "
    "needs=need reaches=reach keeps=keep"
)
_PRESENTS = "has contains includes covers holds employs operates serves takes costs needs reaches keeps"
_AGENTS = "written=wrote sung=sang drawn=drew"
_BASE, _AGENT_VERBS = (dict(pair.split("=") for pair in pairs.split()) for pairs in (_BASES, _AGENTS))
_PRESENT = frozenset(_PRESENTS.split())
_ACTIONS = (
    "founded|directed|written|built|composed|designed|created|produced|published|released|painted|discovered|invented"
    "|developed|established|recorded|performed|conquered|acquired|purchased|bought|sold|opened|launched|organi[sz]ed|led"
    "|edited|illustrated|introduced|adapted|commissioned|hosted|drawn|sung|won|named|shot|killed|taught|succeeded"
)
_PASSIVE_PAST = regex.compile(
    rf"(?:was|were) ((?:[a-z]+ly )?(?:(?:written|produced|directed) and )?)({_ACTIONS})((?: in \d{{4}})?) by (?:the )?$"
)
_PASSIVE_PRESENT = regex.compile(
    r"(is|are) ((?:[a-z]+ly )?(?:owned|operated|run|managed|published|produced|served|governed|administered|led|hosted"
    r"|represented|maintained|distributed|sponsored|written|directed|presented)) by (?:the )?$"
)
_PLACE_PHRASE = regex.compile(
    r"(is|was|are|were) ((?:[a-z]+ly )?(?:born|located|situated|based|headquartered|buried|raised|filmed|set|held"
    r"|founded|established|built|found|stationed|published|performed|recorded)) (?:in|at|near)(?: the)? $"
)
_DEFINITION = regex.compile(r"(is|was|are|were) (the .*)$")
_UNIQUE = regex.compile(
    r"\bthe (?:first|second|third|last|only|capital|largest|smallest|highest|longest|oldest|youngest|most|head|main"
    r"|seat|founder|author|director|name|title|home|birthplace|chief|leader|creator|owner|parent|debut|lead|longest-\w+)\b"
)
_PREDICATE = regex.compile(
    r"(?:(?:is|are|was|were)(?! (?:to|that|as|because|when|if|whether|how|not|what|why|where|who)\b)"
    r"|has|have|takes?|holds?|reaches|costs?|needs?|covers?|keeps?|means?) "
)
_EMPTY_NOUNS = (
    "aim|argument|case|command|default|difference|directory|effect|example|exception|file|flag|function|goal|idea|input"
    "|mailbox|method|name|option|output|parameter|point|problem|purpose|reason|rest|result|setting|syntax|value|way"
)
_EMPTY_SUBJECT = regex.compile(
    rf"(?:The|An?) (?:first |second |third |last |next |other )?(?:{_EMPTY_NOUNS})s?"  # which one, the passage tells
    r"|(?:Figure|Table|Section|Chapter|Appendix|Listing|Example|Step|Note)s?\b.*"
    r"|\p{Lu}\p{Ll}+ly .*|.* (?:\p{Ll}+ly|often|always|never|sometimes|also|just|still)"  # an adverb beside the subject
    r"|Everything|Anything|Nothing|Something|Everyone|(?:The )?(?:first|second|third|last|former|latter|rest|others?)"
    # descriptions of what the predicate names, and references to what stands before
    r"|(?:The (?:only|most|best|least|next|previous|following|same)|Similar|Other|A few)(?: .*)?|.* examples?"
    r"|.* (?:above|below)(?: .*)?|(?:.* )?(?:MUST|SHOULD|MAY)|.* (?:and|or)"
)
_MISFIT = regex.compile(
    r"(?:are|were) an? (?!few|lot|number|kind|set|couple|series|part)"  # `Roles are a way to …`: `What are a way to …`
    r"|(?:are|were) the (?:best|easiest|main|only) \p{Ll}+(?<!s) |(?:is|was) (?:add|be|do|get|have|make|set|use) "
)
"""A predicate that is no question after "What"."""
_LABEL = regex.compile(rf"(?i:{_EMPTY_NOUNS})s?|\p{{Ll}}[\p{{L}}\p{{N}}_.-]*")
"""What stands before a definition in a list: a word such as "Default", or of code, such as the name of a parameter."""
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
MOST_WORDS, _LONGEST_ANSWER = 36, 80


def draft_questions(clause: Clause) -> Iterator[ClauseQuestion]:
    """Yield the questions about one clause, one per answer, in the best form available."""
    if not clause.known and _LABEL.fullmatch(clause.subject):
        return
    yield from _ask_definition(clause)
    yield from _ask_what(clause)
    for mention in list_mentions(clause.rest):
        before, after = clause.rest[: mention.start], clause.rest[mention.end :]
        question = _ask_mention(clause, mention, before, after)
        if question is not None and fair(question, clause):
            yield question


def _ask_mention(clause: Clause, mention: Mention, before: str, after: str) -> ClauseQuestion | None:
    forms = {"date": _ask_date, "year": _ask_date, "number": _ask_number, "name": _ask_name}
    form_of_text = forms[mention.kind](clause, mention, before, after) or _ask_gap(clause, mention, before, after)
    if form_of_text is None:
        return None
    text, form = form_of_text
    return ClauseQuestion(text, mention.text, mention.kind, form, clause.subject, clause.sentence, clause.known)


def fair(question: ClauseQuestion, clause: Clause) -> bool:
    """Return whether the question neither contains its answer nor runs on, nor breaks off within parentheses.

    Each longer word of a name counts as its answer too.
    """
    if not is_balanced(question.text):
        return False
    words, answer = split_words(question.about(clause.subject)), split_words(question.answer)
    forbidden = [answer, *([word] for word in answer if question.kind == "name" and len(word) > 3)]
    gives_away = any(f" {' '.join(phrase)} " in f" {' '.join(words)} " for phrase in forbidden)
    return not gives_away and len(words) <= MOST_WORDS and len(question.answer) <= _LONGEST_ANSWER


def split_words(text: str) -> list[str]:
    """Return the case-folded words of a text."""
    return [word.casefold() for word in _WORD.findall(text)]


def _ask_date(clause: Clause, mention: Mention, before: str, after: str) -> tuple[str, int] | None:
    work = _WORK.match(after) if before in ("is a ", "was a ") else None
    if work is not None and clause.known:
        return f"From which year is the {work[1]} {SLOT}?", REAL
    preposition = _WHEN.search(before)
    if preposition is None or regex.match(r"\s?(?:[-–]|(?:and|to|until|or) \d)", after):
        return None
    phrase = before[: preposition.start()].strip()
    which = _choose_which(mention, preposition[1])
    question_word = "When" if preposition[1] in ("in", "on", "") else f"{preposition[1].capitalize()} {which}"
    return _front_question(clause, question_word, phrase, tail_of(after)) or _ask_in_place(
        clause, f"{before}{which}", after
    )


def _choose_which(mention: Mention, preposition: str) -> str:
    if mention.kind == "year":
        return "which year"
    return (
        "which date"
        if preposition == "on" or regex.search(r"(?m)^[^\d\n]*+\d.*\d{4}|-", mention.text)
        else "which month"
    )


def _front_question(clause: Clause, question_word: str, phrase: str, tail: str) -> tuple[str, int] | None:
    """Move the question word to the front: `was founded` → `When was X founded`; `died` → `When did X die`.

    Return None if the words are more than one clause.
    """
    match = _PARTICIPLE_PHRASE.fullmatch(phrase)
    phrase = f"was {match[1]}" if match else phrase
    if not clause.known or not phrase or runs_on(phrase):
        return None
    be = _BE.match(f"{phrase} ")
    if be is not None and phrase[be.end() :].strip():
        auxiliary, _, more = be[1].partition(" ")
        words = f"{more} {phrase[be.end() :]}".strip(" ,")
        return f"{question_word} {auxiliary} {SLOT} {words}{tail}?", REAL
    verb, _, words = phrase.partition(" ")
    if verb in _BASE and verb not in ("had", "has"):
        did = "does" if verb in _PRESENT else "did"
        return f"{question_word} {did} {SLOT} {f'{_BASE[verb]} {words}'.strip(' ,')}{tail}?", REAL
    return None


def _ask_number(clause: Clause, mention: Mention, before: str, after: str) -> tuple[str, int] | None:
    unit = _PLURAL.match(after)
    if unit is None or _NO_COUNT.search(before):
        return None
    question, tail = f"how many {unit[1]}", after[unit.end() :]
    verb = _LESS_THAN.sub("", before).strip()
    if clause.known and verb in _BASE:
        did = "does" if verb in _PRESENT else "did"
        return f"H{question[1:]} {did} {SLOT} {_BASE[verb]}{tail_of(tail)}?", REAL
    return _ask_in_place(clause, before + question, tail)


def _ask_name(clause: Clause, mention: Mention, before: str, after: str) -> tuple[str, int] | None:
    if not NAME_ENDS.match(after) or regex.match(r"(?:,? and|,? or) \p{Lu}", after):
        return None
    if clause.known and (by := _PASSIVE_PAST.fullmatch(before)):
        return f"Who {by[1]}{_AGENT_VERBS.get(by[2], by[2])} {SLOT}{by[3]}?", REAL
    if clause.known and (by := _PASSIVE_PRESENT.fullmatch(before)):
        return f"By whom {by[1]} {SLOT} {by[2]}?", REAL
    if clause.known and (placed := _PLACE_PHRASE.fullmatch(before)):
        return f"Where {placed[1]} {SLOT} {placed[2]}?", REAL
    role = _ROLE_BEFORE.search(before)
    return _ask_in_place(clause, f"{before[: role.start()]} which {role[1]}", after) if role else None


def _ask_definition(clause: Clause) -> Iterator[ClauseQuestion]:
    """Turn `X was the first Y` into `Who was the first Y?`."""
    the = _DEFINITION.match(clause.rest)
    if the is None or not clause.known or not _UNIQUE.match(the[2]):
        return
    predicate = the[2][: clause_end(the[2])]
    if 4 <= len(predicate.split()) <= 20 and regex.search(r"\p{Lu}", predicate):
        question_word = "Who" if clause.person else "What"
        text = f"{question_word} {the[1]} {predicate.rstrip(' ,')}?"
        question = ClauseQuestion(text, clause.subject.removeprefix("the "), "name", REAL, "", clause.sentence)
        if fair(question, clause):
            yield question


def _ask_what(clause: Clause) -> Iterator[ClauseQuestion]:
    """Turn `A fit is written first` into `What is written first, according to “Encoders”?`, for an unknown subject."""
    subject, rest = clause.subject, _cut_clause(clause.rest)
    if clause.known or len(subject.split()) > 6 or not 4 <= len(rest.split()) <= 20:
        return
    if _EMPTY_SUBJECT.fullmatch(subject) or not _PREDICATE.match(rest) or _MISFIT.match(rest):
        return
    question = ClauseQuestion(f"What {rest}{_cite_title(clause.topic)}?", subject, "name", LOOSE, "", clause.sentence)
    if fair(question, clause) and not tells(rest, subject):
        yield question


def _cut_clause(rest: str) -> str:
    """Return the first clause of a predicate; a list of words stays whole."""
    end = regex.search(r"[;:—–]|, (?=(?:and|but|so|which|after|before|else|where|when|while|though|or)\b)", rest)
    first, comma, more = rest[: end.start() if end else None].rstrip(" ,").partition(", ")
    return f"{first}{comma}{more}" if all(len(part.split()) < 4 for part in more.split(", ")) else first


def _ask_in_place(clause: Clause, until: str, after: str) -> tuple[str, int] | None:
    """Return the sentence up to the question word and its tail, with the passage's title if the subject is unknown."""
    if runs_on(until):
        return None
    question = f"{SLOT} {until.strip()}{tail_of(after)}"
    return (f"{question}?", IN_PLACE) if clause.known else (f"{question}{_cite_title(clause.topic)}?", LOOSE)


def _cite_title(about: PassageTopic) -> str:
    return f", according to “{about.title}”" if about.title else ""


def _ask_gap(clause: Clause, mention: Mention, before: str, after: str) -> tuple[str, int] | None:
    """Return the sentence with a gap."""
    if mention.kind == "name" and not _is_whole_name(mention, before, after):
        return None
    if mention.kind == "number" and (not regex.match(r" \p{L}{3}", after) or _VERSION.search(before)):
        return None
    if mention.kind == "year" and not _BEFORE_YEAR.search(before):
        return None
    where = "" if clause.known else _cite_title(clause.topic)
    return f"Which {mention.kind} is missing in “{SLOT} {before}…{after}”{where}?", GAP


def _is_whole_name(mention: Mention, before: str, after: str) -> bool:
    """Return whether a name is complete and not part of a list."""
    is_whole = not regex.search(r"(?r)(?:[\p{Lu}\p{N}][^ ]*|-) ?$", before) and not regex.match(
        r"[-’']| [\p{Lu}\p{N}]", after
    )
    listed = before.rstrip().endswith((",", "and", "or")) or regex.match(r",? (?:and|or) |, \p{Lu}[^,]*(?:,|$)", after)
    return is_whole and not listed and len(mention.text) > 2


def tail_of(after: str) -> str:
    """Return the text after the answer that belongs to its clause: ` by Y`, ` at the age of forty`."""
    tail = after[: clause_end(after)].rstrip(" ,")
    starts = regex.match(
        r" (?:by|at|with|as|for|to|in|on|near|under|from|of|per|a|each|away|long|wide|high|tall|deep|old|above|north\w*"
        r"|south\w*|east|west|a year)\b",
        tail,
    )
    return tail if starts and len(tail.split()) <= 10 and not regex.search(r"\d{4}", tail) else ""


def tells(question: str, name: str) -> bool:
    """Return whether a question contains one of the longer words of a name."""
    return bool({word for word in split_words(name) if len(word) > 3} & set(split_words(question)))
