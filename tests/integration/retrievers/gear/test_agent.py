"""GeAR's agent: whole dialogues with a scripted server, one of them worked out by hand from the paper's equations."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from made_extractions import spelt
from made_gear import (
    BORN,
    CHAIN,
    DESIGNED,
    HELD,
    LIES,
    MEADOW,
    SARN,
    SPANS,
    YES,
    Call,
    WrittenVectors,
    always_no,
    ask,
    ask_counted,
    built,
    by_equation_9,
    cost,
    ended,
    fused,
    ids,
    no,
    opened,
    script,
    steps,
    triples,
)
from made_language import answering
from openai_server import OpenAIServer, Received

from ragindex.accounting import ledger
from ragindex.errors import LLMError
from ragindex.index.index import Index
from ragindex.index.parts import tasks_of
from ragindex.plugins import registry
from ragindex.retrieval.trace import Trace
from ragindex.types import Query, Retrieval, Triple
from ragindex_retrievers.gear.method import Gear
from ragindex_retrievers.gear.tasks import READ, REASON, REWRITE_QUESTION

SHORT = "Who designed Ostra Bridge?"
QUESTION = "On which river lies the town in which the designer of Ostra Bridge was born?"
AGENT = "gear(base=bm25, base_k=3, link_base=bm25, passage_link_k=3)"
ENOUGH = "stopped: the memory answers the question"
BEFORE = "stopped: the next question was asked before"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("made"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch) as running:
        yield running


@pytest.fixture
def workspace(template: Path, tmp_path: Path, server: OpenAIServer) -> Iterator[Index]:
    with opened(template, tmp_path, server) as workspace:
        yield workspace


def check(
    outcome: tuple[Retrieval, ledger.Tally],
    calls: Sequence[Call],
    ranking: list[str],
    memory: list[Triple],
    why: str,
    paid: Sequence[tuple[Any, ...]],
) -> None:
    """`paid`: iteration and name of each step that asked the model, and the numbers of its requests.

    A request that stands there twice was answered from the cache the second time: it costs the same tokens again, as
    far as the method is concerned, and nothing more to whoever pays.
    """
    retrieval, tally = outcome
    assert ids(retrieval) == ranking
    assert ended(retrieval) == (memory, why)
    asking = [step for step in retrieval.trace if step.input_tokens or step.output_tokens]
    spent = [(step.iteration, step.index, (step.input_tokens, step.output_tokens)) for step in asking]
    assert spent == [(iteration, name, cost(calls, *numbers)) for iteration, name, *numbers in paid]
    call_numbers = [number for _, _, *numbers in paid for number in numbers]
    assert (tally.calls, tally.replayed) == (len(call_numbers), len(call_numbers) - len(calls))
    assert (tally.first.input_tokens, tally.first.output_tokens) == cost(calls, *call_numbers)
    assert (tally.spent.input_tokens, tally.spent.output_tokens) == cost(calls, *range(len(calls)))


BRIDGE = {
    "read": [triples(DESIGNED, BORN), triples(DESIGNED, BORN), triples(LIES), triples(LIES, DESIGNED)],
    "reason": [no("The river of Port Callan is not known."), YES],
    "rewrite": [ask("On which river does Port Callan lie?")],
}
BRIDGE_PAID = [
    (1, "read", 0),
    (1, "gist read", 1),
    (1, "reason", 2),
    (1, "rewrite", 3),
    (2, "read", 4),
    (2, "gist read", 5),
    (2, "reason", 6),
]
BRIDGE_RANKING = ["ilse", "bridge", "meadow", "town", "fair", "arl"]


def test_a_bridge_over_two_rounds(workspace: Index, server: OpenAIServer) -> None:
    calls = script(server, **BRIDGE)
    outcome = ask_counted(workspace, AGENT, QUESTION)
    assert [call.task for call in calls] == ["read", "read", "reason", "rewrite", "read", "read on", "reason"]
    check(outcome, calls, BRIDGE_RANKING, [DESIGNED, BORN, LIES, DESIGNED], ENOUGH, BRIDGE_PAID)
    assert by_equation_9(workspace, outcome[0], "bm25", base_k=3, k=3) == BRIDGE_RANKING
    assert [step.query for step in steps(outcome[0], "text")] == [QUESTION, "On which river does Port Callan lie?"]
    assert calls[3].shown.endswith("Not enough, because: The river of Port Callan is not known.")
    assert calls[4].shown.endswith("Question: On which river does Port Callan lie?")  # Eq. 1: q(n), no memory
    facts = "- Ostra Bridge | was designed by | Ilse Harrow\n- Ilse Harrow | was born in | Port Callan"
    assert calls[5].shown.endswith(f"{facts}\n\nQuestion: {QUESTION}")  # Eq. 4: q, and G(1)
    if_stopped = steps(outcome[0], "ranking if it stopped here")
    assert [(step.iteration, step.ids) for step in if_stopped] == [
        (1, ("bridge", "ilse", "meadow", "fair", "town")),
        (2, tuple(BRIDGE_RANKING)),
    ]


# Everything here is worked out from the paper with a pencil. Each question, and each triple that is asked of an index,
# is a direction of its own; what is written down for a text are its cosines with these, all others being 0. Base and
# link are dense, beams are b = 2 wide, l = 2 long, γ = 2b = 4; chains are encoded (scoring=exact). 2 passages a round,
# passageLink gives 3.
NEXT = "On which river does Port Callan lie?"
MADE = Triple("Ilse Harrow", "made", "Ostra Bridge")
FLOWS = Triple("River Sarn", "flows into", "Grey Sea")
ASKED = {"q1": QUESTION, "q2": NEXT} | {
    f"t{n}": f"{fact.subject} {fact.predicate} {fact.object}"
    for n, fact in enumerate((DESIGNED, HELD, MADE, BORN, LIES, FLOWS), 1)
}
PASSAGES = {
    "bridge": {"q1": 0.8, "t1": 0.5, "t4": 0.1},
    "fair": {"q1": 0.6, "t1": 0.2},
    "ilse": {"q1": 0.2, "q2": 0.3, "t4": 0.5},
    "meadow": {"q1": 0.1, "q2": 0.2, "t4": 0.3, "t5": 0.2},
    "sarn": {"q1": 0.4, "q2": 0.7, "t1": 0.3, "t5": 0.3},
    "town": {"q1": 0.3, "q2": 0.5, "t5": 0.4},
}
CHAINS: dict[tuple[Triple, ...], dict[str, float]] = {
    (DESIGNED,): {"q1": 0.6, "q2": 0.1, "t1": 0.6, "t3": 0.5, "t4": 0.1},
    (SPANS,): {"q1": 0.5, "t1": 0.5, "t3": 0.3},
    (HELD,): {"q1": 0.4, "t2": 0.9},
    (BORN,): {"q1": 0.3, "q2": 0.3, "t1": 0.4, "t4": 0.6, "t5": 0.2},
    (MEADOW,): {"q1": 0.2, "q2": 0.2, "t4": 0.2, "t5": 0.3},
    (SARN,): {"q1": 0.1, "q2": 0.4, "t1": 0.2, "t6": 0.8},
    (LIES,): {"q2": 0.6, "t4": 0.4, "t5": 0.6},
    (DESIGNED, BORN): {"q1": 0.5},
    (DESIGNED, SPANS): {"q1": 0.4},
    (HELD, MEADOW): {"q1": 0.45},
    (LIES, MEADOW): {"q2": 0.4},
    (BORN, MEADOW): {"q2": 0.5},
    (BORN, DESIGNED): {"q2": 0.2},
}


def written() -> WrittenVectors:
    texts = {document.id: document.text for document in CHAIN}
    cosines = {texts[id]: near for id, near in PASSAGES.items()}
    for chain, near in CHAINS.items():
        cosines[" ".join(f"{link.subject} {link.predicate} {link.object}" for link in chain)] = near
    directions = {text: {ASKED[name]: cosine for name, cosine in near.items()} for text, near in cosines.items()}
    return WrittenVectors(questions=tuple(ASKED.values()), cosines=directions)


def test_a_dialogue_by_hand(tmp_path: Path, server: OpenAIServer) -> None:
    # ---- Round 1, q(1) = q.
    # C' = the 2 passages nearest q1: bridge .8, fair .6.
    # Eq. 1: the model reads four triples. Eq. 2: t1 is nearest DESIGNED (.6), t2 HELD (.9), t3 again DESIGNED (.5, as
    # SPANS has .3), t6 SARN (.8): T_q = {DESIGNED, HELD, SARN}.
    # Algorithm 1. Lines 1-5: DESIGNED .6, HELD .4, SARN .1; the first two are B_0.
    # DESIGNED has the neighbours SPANS (Ostra Bridge) and BORN (Ilse Harrow):
    #     DESIGNED∘BORN .6 + .5 = 1.1, n = 0, weight 1; DESIGNED∘SPANS .6 + .4 = 1.0, n = 1, e^(-1/4): .7788
    # HELD has the neighbour MEADOW (Callan Meadow): HELD∘MEADOW .4 + .45 = .85, n = 0
    # B_1 = DESIGNED∘BORN 1.1, HELD∘MEADOW .85. Without the discount DESIGNED∘SPANS, 1.0, had been second.
    # Breadth first: DESIGNED, HELD, BORN, MEADOW: C~ = bridge, fair, ilse, meadow.
    # Eq. 3: bridge 1/61+1/61, fair 1/62+1/62, ilse 1/63, meadow 1/64: C_1 = bridge, fair, ilse, meadow.
    # Eq. 4: reading C_1 gives DESIGNED, BORN. Eq. 5: G(1) = [DESIGNED, BORN]. Eq. 6: no. Eq. 7: q(2).
    #
    # ---- Round 2, q(2).
    # C' = sarn .7, town .5. Eq. 1: LIES, BORN. Eq. 2: t5 is nearest LIES (.6), t4 BORN (.6).
    # B_0 = LIES .6, BORN .3. Neighbours of LIES by Port Callan: BORN, which stands in B_0, and MEADOW.
    #     LIES∘MEADOW .6 + .4 = 1.0
    # Of BORN by Port Callan LIES, which stands in B_0, and MEADOW, by Ilse Harrow DESIGNED:
    #     BORN∘MEADOW .3 + .5 = .8; BORN∘DESIGNED .3 + .2 = .5, n = 1: .3894
    # B_1 = LIES∘MEADOW 1.0, BORN∘MEADOW .8. Breadth first: LIES, BORN, MEADOW: C~ = town, ilse, meadow.
    # Eq. 3: town 1/61+1/62, sarn 1/61, ilse 1/62, meadow 1/63: C_2 = town, sarn, ilse, meadow.
    # Eq. 4, with G(1): LIES, DESIGNED. Eq. 5: G(2) = [DESIGNED, BORN, LIES, DESIGNED]. Eq. 6: yes.
    #
    # ---- After termination. Eqs. 8 and 10, the passages nearest a triple with those of the triples nearest it:
    # DESIGNED: C gives bridge .5, sarn .3, fair .2; T DESIGNED .6, SPANS .5, BORN .4, SARN .2: bridge, ilse, sarn.
    #     bridge 2/61, sarn 1/62+1/63, ilse 1/62, fair 1/63: the first 3 are bridge, sarn, ilse.
    # BORN: C ilse .5, meadow .3, bridge .1; T BORN .6, LIES .4, MEADOW .2: ilse, town, meadow.
    #     ilse 2/61, meadow 1/62+1/63, town 1/62, bridge 1/63: ilse, meadow, town.
    # LIES: C town .4, sarn .3, meadow .2; T LIES .6, MEADOW .3, BORN .2: town, meadow, ilse.
    #     town 2/61, meadow 1/62+1/63, sarn 1/62, ilse 1/63: town, meadow, sarn.
    # Eq. 9 fuses four lists of triples, that of DESIGNED twice, and C_1 and C_2.
    final = {
        "ilse": 1 / 63 + 1 / 61 + 1 / 63 + 1 / 63 + 1 / 63,  # DESIGNED, BORN, DESIGNED, C_1, C_2: .0799
        "sarn": 1 / 62 + 1 / 63 + 1 / 62 + 1 / 62,  # DESIGNED, LIES, DESIGNED, C_2: .0643
        "meadow": 1 / 62 + 1 / 62 + 1 / 64 + 1 / 64,  # BORN, LIES, C_1, C_2: .0635
        "bridge": 1 / 61 + 1 / 61 + 1 / 61,  # DESIGNED, DESIGNED, C_1: .0492
        "town": 1 / 63 + 1 / 61 + 1 / 61,  # BORN, LIES, C_2: .0487
        "fair": 1 / 62,  # C_1: .0161
    }
    # Had it stopped after round 1, with DESIGNED, BORN and C_1: ilse .0481, bridge .0328, meadow .0318, fair and sarn
    # 1/62 each with the best rank 2, so by id, town 1/63.
    encoder = written()
    index_folder = built(tmp_path, CHAIN, encoder)
    calls = script(
        server,
        read=[
            triples(DESIGNED, HELD, MADE, FLOWS),
            triples(DESIGNED, BORN),
            triples(LIES, BORN),
            triples(LIES, DESIGNED),
        ],
        reason=[no("The river is missing."), YES],
        rewrite=[ask(NEXT)],
    )
    agent = Gear.model_validate(
        {"base": "dense", "link_base": "dense", "scoring": "exact", "beam_width": 2, "base_k": 2, "passage_link_k": 3}
    )
    with opened(index_folder, tmp_path, server, encoder=encoder) as workspace:
        outcome = ask_counted(workspace, agent, QUESTION)
    answer, _ = outcome
    check(outcome, calls, list(final), [DESIGNED, BORN, LIES, DESIGNED], ENOUGH, BRIDGE_PAID)
    assert [hit.score for hit in answer.hits] == pytest.approx(list(final.values()), abs=1e-12)

    beams = steps(answer, "triple beams")
    assert [step.ids for step in beams] == [("bridge", "fair", "ilse", "meadow"), ("town", "ilse", "meadow")]
    assert [step.paths for step in beams] == [((DESIGNED, BORN), (HELD, MEADOW)), ((LIES, MEADOW), (BORN, MEADOW))]
    assert [step.scores for step in beams] == [pytest.approx([1.1, 0.85]), pytest.approx([1.0, 0.8])]
    assert 1.0 * math.exp(-1 / 4) < 0.85 < 1.0  # what decided about the second chain of round 1
    links = steps(answer, "tripleLink")
    assert [step.ids for step in links] == [("bridge#t0000", "fair#t0000", "sarn#t0000"), ("town#t0000", "ilse#t0000")]
    shown = [step.ids for step in steps(answer, "vectors", "read", "gist read")]
    assert shown == [
        *(("bridge", "fair"), ("bridge", "fair"), ("bridge", "fair", "ilse", "meadow")),
        *(("sarn", "town"), ("sarn", "town"), ("town", "sarn", "ilse", "meadow")),
    ]
    assert [step.ids for step in steps(answer, "ranking if it stopped here")] == [
        ("ilse", "bridge", "meadow", "fair", "sarn", "town"),
        tuple(final),
    ]
    assert steps(answer, "passageLink")[0].triples == (DESIGNED, BORN, LIES)  # each is looked up once


# ---------------------------------------------------------------- why it stops


def test_a_question_of_an_earlier_round_ends_it(workspace: Index, server: OpenAIServer) -> None:
    calls = script(
        server,
        read=[triples(DESIGNED), triples(DESIGNED), triples(BORN), triples(BORN)],
        reason=[no("Nothing of her."), no("Nothing of the bridge.")],
        rewrite=[ask("Where was Ilse Harrow born?"), ask(" who DESIGNED  Ostra Bridge? ")],
    )
    outcome = ask_counted(workspace, AGENT, SHORT)
    assert [call.task for call in calls] == [
        "read",
        "read",
        "reason",
        "rewrite",
        "read",
        "read on",
        "reason",
        "rewrite",
    ]
    paid = [*BRIDGE_PAID, (2, "rewrite", 7)]
    check(outcome, calls, ["bridge", "ilse", "fair", "meadow", "town"], [DESIGNED, BORN], BEFORE, paid)
    assert [step.note for step in steps(outcome[0], "rewrite")] == [
        "Where was Ilse Harrow born?",
        "who DESIGNED  Ostra Bridge?",
    ]


def test_a_question_may_be_asked_again(workspace: Index, server: OpenAIServer) -> None:
    calls = script(
        server, read=[triples(DESIGNED), triples(SPANS), triples()], reason=[no("No designer.")], rewrite=[ask(SHORT)]
    )
    outcome = ask_counted(workspace, AGENT.replace(")", ", repeated=ask, iterations=3)"), SHORT)
    # Round 2 reads nothing that round 1 did not (request 0), and reads on with the memory for nothing (4); with the
    # same memory it reasons and rewrites as before (2, 3), from the cache. Round 3 reads nothing new at all.
    assert [call.task for call in calls] == ["read", "read", "reason", "rewrite", "read on"]
    again = [(2, "gist read", 4), (2, "reason", 2), (2, "rewrite", 3), (3, "reason", 2)]
    end = "stopped: after 3 iterations, of at most 3"
    check(outcome, calls, ["bridge", "fair", "ilse", "sarn"], [SPANS], end, [*BRIDGE_PAID[:4], *again])
    assert by_equation_9(workspace, outcome[0], "bm25", base_k=3, k=3) == ["bridge", "fair", "ilse", "sarn"]


@pytest.mark.parametrize(
    ("iterations", "ranking"),
    [(1, ["bridge", "fair", "ilse"]), (2, ["bridge", "ilse", "fair"]), (4, ["bridge", "ilse", "fair"])],
)
def test_never_enough(iterations: int, ranking: list[str], workspace: Index, server: OpenAIServer) -> None:
    # C_1 is bridge, fair, ilse, every later round gives bridge, ilse, and every copy of the triple bridge, ilse, fair.
    # After n rounds fair has n/63 + 1/62 and ilse 1/63 + (2n - 1)/62: the same for n = 1, when the id decides.
    requests = always_no(server)
    retrieval, tally = ask_counted(workspace, AGENT.replace(")", f", iterations={iterations})"), SHORT)
    by_task = {"read": iterations + 1, "read on": iterations - 1, "reason": iterations, "rewrite": iterations - 1}
    assert requests == +Counter(by_task)
    assert (tally.calls, tally.replayed, len(server.requests)) == (4 * iterations - 1, 0, 4 * iterations - 1)
    end = f"stopped: after {iterations} iterations, of at most {iterations}"
    assert ended(retrieval) == ([DESIGNED] * iterations, end)  # what is read twice stands there twice
    assert ids(retrieval) == by_equation_9(workspace, retrieval, "bm25", base_k=3, k=3) == ranking


def test_the_same_passages_in_another_order_are_read_once(workspace: Index, server: OpenAIServer) -> None:
    calls = script(server, read=[triples(DESIGNED)], reason=[no("Her birthplace is missing.")])
    agent = "gear(base=bm25, base_k=3, link_base=bm25, passage_link_k=3, iterations=1)"
    retrieval, tally = ask_counted(workspace, agent, QUESTION)
    read, gist = steps(retrieval, "read", "gist read")
    assert (set(read.ids), read.ids == gist.ids) == (set(gist.ids), False)
    assert (read.triples, gist.triples) == ((DESIGNED,), (DESIGNED,))
    assert gist.note == "These passages were read before, in this or another order."
    assert ([call.task for call in calls], tally.calls) == (["read", "reason"], 2)
    assert ended(retrieval)[0] == [DESIGNED]


def test_a_rewrite_sees_what_was_asked_only_if_it_is_told_to(workspace: Index, server: OpenAIServer) -> None:
    read = [triples(DESIGNED), triples(DESIGNED), *[triples()] * 6]
    again, missing = ask("Where was Ilse Harrow born?"), no("Her birthplace is missing.")
    calls = script(server, read=read, reason=[missing, missing], rewrite=[again, again])
    retrieval, _ = ask_counted(workspace, AGENT, SHORT)
    assert ended(retrieval)[1] == BEFORE  # Eq. 7 names question, memory and reason
    assert not any("Searched for before" in call.shown for call in calls)
    calls = script(server, read=read, reason=[YES], rewrite=[again, ask("In which town did Ilse Harrow grow up?")])
    retrieval, _ = ask_counted(workspace, AGENT.replace(")", ", show_asked=true, iterations=3)"), SHORT)
    shown = [call.shown for call in calls if call.task == "rewrite shown"]
    assert [message.partition("Searched for before:\n")[2].partition("\n\n")[0] for message in shown] == [
        f"- {SHORT}",
        f"- {SHORT}\n- Where was Ilse Harrow born?",
    ]
    assert [step.query for step in steps(retrieval, "text")][2] == "In which town did Ilse Harrow grow up?"


# ---------------------------------------------------------------- what is no answer


def test_a_read_that_finds_nothing(workspace: Index, server: OpenAIServer) -> None:
    calls = script(
        server,
        read=[triples(), triples(DESIGNED), triples(DESIGNED)],
        reason=[no("No facts."), YES],
        rewrite=[ask("Whose bridge is it?")],
    )
    outcome = ask_counted(workspace, AGENT, SHORT)
    # C_1 = C'_1: the gist read is the read once more, and is not asked again. G(1) is empty, so that the gist read of
    # round 2 is one without a memory. Eq. 9 fuses bridge, ilse, fair (the triple's), bridge, fair and bridge, ilse.
    assert [call.task for call in calls] == ["read", "reason", "rewrite", "read", "read", "reason"]
    paid = [
        *((1, "read", 0), (1, "reason", 1), (1, "rewrite", 2)),
        *((2, "read", 3), (2, "gist read", 4), (2, "reason", 5)),
    ]
    check(outcome, calls, ["bridge", "ilse", "fair"], [DESIGNED], ENOUGH, paid)
    assert by_equation_9(workspace, outcome[0], "bm25", base_k=3, k=3) == ["bridge", "ilse", "fair"]
    first = [step for step in outcome[0].trace if step.iteration == 1]
    assert [step.index for step in first] == [
        *("text", "read", "triple beams", "gist read", "reason", "rewrite"),
        "ranking if it stopped here",
    ]
    assert (first[2].ids, first[2].paths) == ((), ())
    assert first[0].ids == first[3].ids == first[6].ids == ("bridge", "fair")
    assert calls[1].shown == f"Facts:\n(none)\n\nQuestion: {SHORT}"


def test_a_reason_that_cannot_be_read_is_no(workspace: Index, server: OpenAIServer) -> None:
    calls = script(
        server,
        read=[triples(DESIGNED), triples(DESIGNED), triples(BORN), triples(BORN)],
        reason=["I believe so.", "Yes!", YES],
        rewrite=[ask("Where was Ilse Harrow born?")],
    )
    outcome = ask_counted(workspace, AGENT, SHORT)
    tasks = ["read", "read", "reason", "reason", "rewrite", "read", "read on", "reason"]
    assert [call.task for call in calls] == tasks
    paid = [
        *((1, "read", 0), (1, "gist read", 1), (1, "reason", 2, 3), (1, "rewrite", 4)),
        *((2, "read", 5), (2, "gist read", 6), (2, "reason", 7)),
    ]
    ranking = ["bridge", "ilse", "fair", "meadow", "town"]
    check(outcome, calls, ranking, [DESIGNED, BORN], ENOUGH, paid)
    assert by_equation_9(workspace, outcome[0], "bm25", base_k=3, k=3) == ranking
    counted = {"malformed": 2, "asked again": 1, "failed": 1, "taken for no": 1, "strict": 1}
    assert outcome[1].stages[REASON.name] == counted
    assert outcome[1].stages[READ.name] == {"strict": 4}


@pytest.mark.parametrize(
    ("task", "earlier", "answers"),
    [
        (READ.name, 0, {"read": ["I found none.", "None at all."]}),
        (READ.name, 1, {"read": [triples(DESIGNED), "I found none.", "None at all."]}),
        (REWRITE_QUESTION.name, 3, {"read": [triples(DESIGNED)] * 2, "reason": [no("a")], "rewrite": ["Hm.", "Well."]}),
    ],
    ids=["read", "gist read", "rewrite"],
)
def test_what_cannot_be_read_fails_the_question(
    task: str, earlier: int, answers: dict[str, Any], workspace: Index, server: OpenAIServer
) -> None:
    script(server, **answers)
    with (
        pytest.raises(LLMError, match=f"{task}: small gave no usable answer") as raised,
        ledger.record_calls() as tally,
    ):
        ask_counted(workspace, AGENT, SHORT)
    assert raised.value.kind == "malformed"
    assert len(server.requests) == earlier + 2
    assert tally.stages[task]["failed"] == 1


def test_a_blank_rewrite_ends_it(workspace: Index, server: OpenAIServer) -> None:
    calls = script(server, read=[triples(DESIGNED)] * 2, reason=[no("a")], rewrite=[ask(" \n")])
    retrieval, _ = ask_counted(workspace, AGENT, SHORT)
    assert (ids(retrieval), len(calls)) == (["bridge", "fair", "ilse"], 4)
    assert ended(retrieval)[0] == [DESIGNED]


# ---------------------------------------------------------------- the readings of G5 to G7


@pytest.mark.parametrize(
    ("parameter", "task", "asks", "read"),
    [
        ("sync_query=current", "read", "On which river does Port Callan lie?", ("town", "ilse", "meadow", "arl")),
        ("sync_query=original", "read", QUESTION, None),
        ("sync_memory=true", "read on", "On which river does Port Callan lie?", ("town", "ilse", "meadow", "arl")),
    ],
)
def test_what_the_second_round_is_asked(
    parameter: str, task: str, asks: str, read: tuple[str, ...] | None, workspace: Index, server: OpenAIServer
) -> None:
    calls = script(server, **BRIDGE)
    retrieval, _ = ask_counted(workspace, AGENT.replace(")", f", {parameter})"), QUESTION)
    base, sync, gist, beams = (steps(retrieval, name)[1] for name in ("text", "read", "gist read", "triple beams"))
    assert base.query == "On which river does Port Callan lie?"  # the base always searches for the new question
    assert (calls[4].task, calls[5].task) == (task, "read on")
    assert calls[4].shown.endswith(f"Question: {asks}")
    assert (sync.query, beams.query, gist.query) == (asks, asks, QUESTION)
    assert sync.ids == base.ids == ("town", "meadow", "ilse")
    assert set(gist.ids) == {"town", "ilse", "meadow", "arl"} if read is None else gist.ids == read


def test_the_gist_may_be_read_from_what_the_beams_found(workspace: Index, server: OpenAIServer) -> None:
    script(server, read=[triples(DESIGNED), triples()], reason=[YES])
    retrieval, _ = ask_counted(workspace, AGENT.replace(")", ", gist_source=expanded)"), SHORT)
    (beams,), (gist,) = steps(retrieval, "triple beams"), steps(retrieval, "gist read")
    assert gist.ids == beams.ids == ("bridge", "ilse")  # fair, which only the base found, is not read
    assert ids(retrieval) == ["bridge", "fair", "ilse"]


def test_triples_are_looked_through_until_there_are_passages_enough(tmp_path: Path) -> None:
    many = spelt("many", *(f"Ostra Bridge|has pillar|number {n}" for n in range(9)))
    other = spelt("other", "Ostra Bridge|was paid for by a very rich and very old lady of the town|Ada Miller")
    with opened(built(tmp_path, [many, other, spelt("rye", "Rye|makes|bread")]), tmp_path, None) as workspace:
        linker = Gear.model_validate({"link_base": "bm25"}).round(workspace).linker
        pillar = Triple("Ostra Bridge", "has", "pillar")
        asks = linker.queries([pillar, Triple("Rye", "is", "grain"), Triple("a", "b", "c")], Query("q", SHORT))
        assert linker.passages(asks, 2) == [["many", "other"], ["rye"], []]
        assert linker.passages(asks, 1) == [["many"], ["rye"], []]
        assert linker.linked([pillar, pillar], asks[0], Trace(), 1) == ["many#t0000"]


def test_sync_reads_once(workspace: Index, server: OpenAIServer) -> None:
    calls = script(server, read=[triples(BORN, DESIGNED, BORN)])
    (retrieval, tally) = ask_counted(workspace, "gear.sync(base=bm25, link_base=bm25, base_k=3)", SHORT)
    assert ([call.task for call in calls], tally.calls) == (["read"], 1)
    base, read, link, beams = retrieval.trace
    assert (base.index, read.index, link.index, beams.index) == ("text", "read", "tripleLink", "triple beams")
    assert read.ids == base.ids == ("bridge", "fair")
    assert read.triples == (BORN, DESIGNED)
    assert (
        (read.input_tokens, read.output_tokens)
        == cost(calls, 0)
        == (tally.first.input_tokens, tally.first.output_tokens)
    )
    assert link.ids == ("ilse#t0000", "bridge#t0000")
    assert ids(retrieval) == fused(beams.ids, base.ids)
    assert set(ids(retrieval)) == {"bridge", "ilse", "meadow", "town", "fair"}
    assert calls[0].shown.endswith(f"Question: {SHORT}")


# ---------------------------------------------------------------- what goes wrong elsewhere


def test_a_model_that_is_not_reached_is_no_answer(workspace: Index, server: OpenAIServer) -> None:
    script(server, read=[triples(DESIGNED)] * 2, reason=[YES], rewrite=[ask(SHORT)])

    def drops(received: Received, earlier: int) -> Any:
        return (lambda answer: None) if "You decide whether" in str(received.body["messages"][0]) else None

    server.choose = drops
    with pytest.raises(LLMError, match="did not answer"):
        ask_counted(workspace, AGENT, SHORT)


@pytest.mark.parametrize("written", ["gear.naive(base=ircot)", "gear.sync(base=ircot)", "gear(base=ircot)"])
def test_what_the_base_asks_is_asked_too(written: str) -> None:
    base = tasks_of(registry.scheme("ircot"))
    assert len(base) == 1
    assert set(base) <= set(tasks_of(registry.scheme(written)))


def test_the_notes_of_the_base_reach_the_reader(template: Path, tmp_path: Path) -> None:
    with opened(template, tmp_path, None) as workspace:
        retrieval, _ = ask_counted(workspace, "gear(base=self-ask(base=bm25, candidates=1), iterations=1)", SHORT)
        base, _ = ask_counted(workspace, "self-ask(base=bm25, candidates=1)", SHORT)
    assert base.notes != ()
    assert retrieval.notes == base.notes
