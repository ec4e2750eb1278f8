"""Answers questions over a world from its true triples alone, by reading the English and trying everything.

Written from what the sentences mean, without the generator's code: the wording below is its own copy.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from ragindex.types import Triple

NOUNS = """
place of birth: the birthplace of X; the town where X was born; the place where X was born
place of death: the town where X died; the place of death of X
family: the family of X; the family that X belonged to
mother: the mother of X
father: the father of X
spouse: the spouse of X; the person whom X married
teacher: the teacher of X; the person under whom X studied
employer: the company that X worked for; the employer of X
award: the award that X received; the award given to X; the award that X won; the award won by X
author: the author of X; the person who wrote X
director: the director of X; the person who directed X
composer: the composer of X; the person who composed X
painter: the painter of X; the person who painted X
publisher: the publisher of X; the company that published X
producer: the producer of X; the company that produced X
owner: the family that owns X; the owner of X; the company that owns X
setting: the town in which X is set; the town that is the setting of X
scene: the town shown in X; the town that X is a view of
dedicated to: the person to whom X is dedicated; the person named in the dedication of X
founder: the founder of X; the person who founded X
headquarters: the town where X is based; the town with the headquarters of X
architect of its works: the architect of the main building of X
region: the region of X; the region in which X lies
river: the river on which X stands; the river that runs through X
architect of the town hall: the architect of the town hall of X; the person who designed the town hall of X
ruling family: the family that once ruled X; the old ruling family of X
mother town: the mother town of X; the town whose people settled X
flows into: the river that X flows into; the river that takes in the waters of X
rises near: the town near which X rises; the town nearest to the source of X
architect of the oldest bridge: the architect of the oldest bridge across X; \
the person who designed the oldest bridge across X
navigation company: the company that runs barges on X
place of the ceremony: the town where X is presented; the place of the ceremony of X
endowed by: the family that endowed X
designer of the trophy: the person who designed the trophy of X; the designer of the trophy of X
maker of the trophy: the company that makes the trophy of X
seat: the seat of X; the town in which X has its seat
chronicler: the person who wrote the chronicle of X
architect of the house: the architect of the house of X; the person who designed the house of X
company it controls: the company that is controlled by X
country: the country of X; the country in which X lies
administrative seat: the administrative seat of X; the town from which X is administered
main river: the main river of X
largest employer: the largest employer of X
capital: the capital of X
person on its banknotes: the person on the banknotes of X
largest company: the largest company of X
"""
ASKS = """
place of birth: Where was X born?; In which town was X born?; What is the birthplace of X?
place of death: Where did X die?; In which town did X die?
family: Which family did X belong to?; What family was X a member of?
mother: Who was the mother of X?
father: Who was the father of X?
spouse: Who was married to X?; Whom did X marry?
teacher: Who taught X?; Who was the teacher of X?
employer: Which company did X work for?; Who employed X?
award: Which award did X receive?; Which award did X win?
year of birth: In which year was X born?; When was X born?
year of death: In which year did X die?; When did X die?
author: Who wrote X?; Who is the author of X?
director: Who directed X?; Who is the director of X?
composer: Who composed X?; Who is the composer of X?
painter: Who painted X?; Who is the painter of X?
publisher: Who published X?; Which company published X?
producer: Who produced X?; Which company produced X?
owner: Who owns X?; Which family owns X?; Which company owns X?; Who is the owner of X?
setting: Where is X set?; In which town does X take place?
scene: Which town does X show?; Of which town is X a view?
year of the award: In which year was X given an award?
dedicated to: To whom is X dedicated?
year: From which year is X?; In which year did X appear?
founder: Who founded X?; Who was the founder of X?
headquarters: Where is X based?; In which town are the headquarters of X?
architect of its works: Who designed the main building of X?
founded: In which year was X founded?; When was X founded?
product: What does X make?; What is the product of X?
region: In which region is X?; Which region does X belong to?
river: On which river does X stand?; Which river runs through X?
architect of the town hall: Who designed the town hall of X?
ruling family: Which family once ruled X?
mother town: What is the mother town of X?; From which town was X settled?
population: What is the population of X?; How many people live in X?
flows into: Into what does X flow?; Where does X end?
rises near: Near which town does X rise?
architect of the oldest bridge: Who designed the oldest bridge across X?
navigation company: Which company runs barges on X?
length: How long is X?; What is the length of X?
place of the ceremony: Where is X presented?; In which town is the ceremony of X held?
endowed by: Which family endowed X?; Who endowed X?
designer of the trophy: Who designed the trophy of X?
maker of the trophy: Which company makes the trophy of X?
established: In which year was X established?; When was X first given?
seat: Where is the seat of X?; In which town does X have its seat?
chronicler: Who wrote the chronicle of X?
architect of the house: Who designed the house of X?
company it controls: Which company is controlled by X?
trade: What made X rich?; In which trade did X become rich?
country: In which country is X?; Which country does X belong to?
administrative seat: What is the administrative seat of X?; From which town is X administered?
main river: What is the main river of X?
largest employer: What is the largest employer of X?
area: What is the area of X?; How large is X?
capital: What is the capital of X?
person on its banknotes: Who is shown on the banknotes of X?
largest company: What is the largest company of X?
currency: What is the currency of X?; What does one pay with in X?
"""
LESS, MORE = -1, 1
COMPARED = {
    "Who was born first": ("year of birth", LESS),
    "Who was born later": ("year of birth", MORE),
    "Who died first": ("year of death", LESS),
    "Who died later": ("year of death", MORE),
    "Which river is longer": ("length", MORE),
    "Which is the shorter river": ("length", LESS),
    "Which town has more inhabitants": ("population", MORE),
    "Which town is smaller by population": ("population", LESS),
    "Which town was founded first": ("founded", LESS),
    "Which company is older": ("founded", LESS),
    "Which company was founded later": ("founded", MORE),
    "Which appeared first": ("year", LESS),
    "Which award has been given for longer": ("established", LESS),
    "Which region is larger": ("area", MORE),
}
FIRST_CONDITIONS = """
place of birth: born in X
place of death: who died in X
setting: set in X
scene: with a view of X
dedicated to: dedicated to X
headquarters: with headquarters in X
architect of its works: in a main building designed by X
"""
SECOND_CONDITIONS = """
award: received X; won X
employer: worked for X
teacher: studied under X
teacher, place of birth: studied under somebody born in X
teacher, employer: studied under somebody who worked for X
employer, headquarters: worked for a company based in X
employer, founder: worked for a company founded by X
spouse, place of birth: married somebody born in X
publisher: was published by X
publisher, headquarters: was published by a company based in X
producer, founder: was produced by a company founded by X
author, place of birth: was written by somebody born in X
author, teacher: was written by a pupil of X
director, place of birth: was directed by somebody born in X
composer, place of birth: was composed by somebody born in X
painter, place of birth: was painted by somebody born in X
painter, teacher: was painted by a pupil of X
owner: belongs to X
owner, headquarters: belongs to a company based in X
founder, place of birth: was founded by somebody born in X
founder, teacher: was founded by a pupil of X
founder, spouse: was founded by somebody married to X
"""
StatedValue = tuple[str, frozenset[str]]
"""An answer, and the documents that state what it follows from."""


def patterns(table: str) -> list[tuple[re.Pattern[str], tuple[str, ...]]]:
    lines = (line.partition(": ") for line in table.strip().splitlines())
    return [
        (re.compile(re.escape(way).replace("X", "(.+)", 1)), tuple(predicates.split(", ")))
        for predicates, _, ways in lines
        for way in ways.split("; ")
    ]


class Solver:
    def __init__(self, triples: Iterable[tuple[str, Triple]]) -> None:
        self.objects: dict[str, dict[str, list[StatedValue]]] = defaultdict(lambda: defaultdict(list))
        for doc_id, triple in triples:
            self.objects[triple.subject][triple.predicate].append((triple.object, frozenset({doc_id})))
        self.nouns, self.asks = patterns(NOUNS), patterns(ASKS)
        self.firsts, self.seconds = patterns(FIRST_CONDITIONS), patterns(SECOND_CONDITIONS)

    def solve(self, question: str) -> set[StatedValue]:
        """Everything that the question could mean and all that is true of it."""
        return {*self.chains(question), *self.comparisons(question), *self.intersections(question)}

    def chains(self, question: str) -> Iterator[StatedValue]:
        for pattern, predicates in self.asks:
            if match := pattern.fullmatch(question):
                yield from self.follow(self.things(match[1]), predicates)

    def things(self, text: str) -> Iterator[StatedValue]:
        """What a noun phrase can stand for."""
        for name in (text, text.removeprefix("the ")):
            if name in self.objects:
                yield name, frozenset()
                break
        if described := re.fullmatch(r"the (.+) that was given the (.+) in (\d+)", text):
            wanted = zip(("type", "award", "year of the award"), described.groups(), strict=True)
            yield from ((name, frozenset()) for name in self.fitting(dict(wanted)))
        for pattern, predicates in self.nouns:
            if match := pattern.fullmatch(text):
                yield from self.follow(self.things(match[1]), predicates)

    def follow(self, things: Iterable[StatedValue], predicates: tuple[str, ...]) -> Iterator[StatedValue]:
        reached = list(things)
        for predicate in predicates:
            reached = [
                (value, documents | stated)
                for name, documents in reached
                if name in self.objects
                for value, stated in self.objects[name].get(predicate, ())
            ]
        yield from reached

    def fitting(self, wanted: dict[str, str]) -> Iterator[str]:
        for name, facts in self.objects.items():
            if all(value in [value_stated for value_stated, _ in facts.get(key, ())] for key, value in wanted.items()):
                yield name

    def comparisons(self, question: str) -> Iterator[StatedValue]:
        wording, comma, rest = question.removesuffix("?").partition(", ")
        if not comma or wording not in COMPARED:
            return
        predicate, sign = COMPARED[wording]
        for split in re.finditer(" or ", rest):
            for first in self.things(rest[: split.start()]):
                for other in self.things(rest[split.end() :]):
                    values = [list(self.follow([thing], (predicate,))) for thing in (first, other)]
                    for (left, ours), (right, theirs) in zip(*values, strict=True):
                        more = sign * number(left) > sign * number(right)
                        less = sign * number(left) < sign * number(right)
                        yield from [(first[0], ours | theirs)] * more + [(other[0], ours | theirs)] * less

    def intersections(self, question: str) -> Iterator[StatedValue]:
        for first, entity in self.firsts:
            for second, other in self.seconds:
                pattern = re.compile(rf"Which (.+?) {first.pattern} {second.pattern}\?")
                if match := pattern.fullmatch(question):
                    yield from self.meeting(match[1], (entity, match[2]), (other, match[3]))

    def meeting(self, noun: str, *conditions: tuple[tuple[str, ...], str]) -> Iterator[StatedValue]:
        kinds = {"company": ("founder",)}.get(noun, ("occupation", "type"))
        for name, facts in self.objects.items():
            known = [value for key in kinds for value, _ in facts.get(key, ())]
            if noun in known or (noun == "company" and known):
                trails = [
                    [stated for value, stated in self.follow([(name, frozenset())], path) if value in called(wanted)]
                    for path, wanted in conditions
                ]
                if all(trails):
                    yield name, frozenset().union(*(documents for trail in trails for documents in trail))


def called(text: str) -> tuple[str, str]:
    return text, text.removeprefix("the ")


def number(text: str) -> int:
    return int(re.sub(r"[^\d]", "", text))
