"""What commands that search share: opening a method, notes on the words of a question, and the printing of hits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.padding import Padding
from rich.text import Text

from ragindex._util.text import first_names, many
from ragindex.cli.approval import limit_question
from ragindex.cli.console import stdout, strip_controls
from ragindex.cli.options import (
    BudgetOption,
    CacheOption,
    EncoderOption,
    LlmOption,
    SeedOption,
    StoreOption,
    YesOption,
)
from ragindex.corpus import passage_text
from ragindex.errors import MissingPartError, UsageError
from ragindex.index.index import Index
from ragindex.index.notes import suggest_for_unknown_words
from ragindex.index.parts import list_working_methods, require_working
from ragindex.interfaces import Retriever, Scheme, TextQuery
from ragindex.interfaces.llm import LLMSettings
from ragindex.parts.text.passages import Passages
from ragindex.plugins import registry
from ragindex.retrieval.formatting import format_path, format_positions, place_snippet
from ragindex.retrieval.matching import QuestionWord, find_matches, find_question_words, find_window
from ragindex.types import Retrieval, Step

_SEEN_PASSAGES = 20  # of those that contain a word: whether any has it as it is written in the question
_SHOWN_TRIPLES = 10
_WINDOW = 400
"""Characters of a passage that are shown."""


@dataclass(frozen=True, slots=True)
class QuestionOptions:
    """What an index is opened with for one question, and what the question may cost."""

    encoder: EncoderOption = None
    llm: LlmOption = None
    budget: BudgetOption = None
    yes: YesOption = False
    cache: CacheOption = None
    store: StoreOption = None
    seed: SeedOption = None

    def open_index(self, scheme: Scheme, folder: Path, *, keep_calls: bool = True, reader: str | None = None) -> Index:
        """Open the index that a scheme searches; `reader` is a model of its own that answers from what was found."""
        models = [self.llm, *([] if reader is None else [reader])]
        budget = limit_question(scheme, folder, models, self.encoder, self.budget, self.yes)
        return Index.open(
            folder,
            encoder=self.encoder,
            llm=self.llm,
            store=self.store,
            seed=self.seed,
            llm_settings=LLMSettings(budget=budget),
            keep_calls=keep_calls,
            cache=self.cache,
        )

    def refuse_for_export(self, method: str | None) -> None:
        """Raise UsageError if a setting is given that an exported retriever has fixed."""
        fixed = {"method": method, "encoder": self.encoder, "llm": self.llm, "store": self.store, "seed": self.seed}
        for name, value in fixed.items():
            if value is not None:
                raise UsageError(f"An exported retriever has its own {name}. Leave out --{name}, or --retriever.")


def open_retriever(index: Index, scheme: Scheme) -> Retriever:
    """Open the scheme's retriever.

    Raises MissingPartError with the command that builds the missing parts, and BrokenPluginError.
    """
    try:
        return require_working(scheme).open(index)
    except MissingPartError as error:
        raise make_not_built_error(index, scheme) from error


def make_not_built_error(index: Index, scheme: Scheme) -> MissingPartError:
    """Return the error of a method that is not built, with the methods that are and the command that builds it."""
    method = registry.label(scheme)
    encoder = index.encoder_of(scheme)
    which = f" with the encoder {encoder}" if encoder else ""
    methods = list[str]()  # installed ones of which the index has all parts
    for name, parts in list_working_methods().items():
        keys = {index.key(part, index.pinned_encoder(part)) for part in parts}
        if keys and keys <= index.manifest.parts.keys():
            methods.append(name)
    there = f" Built: {first_names(methods)}." if methods else ""
    command = index.command("index", "--methods", method)
    return MissingPartError(f"The index {index.folder} is not built for {method}{which}.{there} Run: {command}")


def find_words_in_passages(index: Index, scheme: Scheme, words: Sequence[str]) -> dict[str, list[str]]:
    """Return those of `words` that a passage of the index contains, as it is or in another form, with the best texts.

    The scheme's passages are searched for each word.
    """
    passages = [part for part in index.all_parts(scheme) if isinstance(part, Passages)]
    if not words or not passages:
        return {}
    queries = [TextQuery(word, _SEEN_PASSAGES, ("title", "text")) for word in words]
    texts = dict[str, list[str]]()
    for word, matches in zip(words, index.open_part(passages[0]).search(queries), strict=True):
        if matches.ids:
            columns = (matches.records.column(name).to_pylist() for name in ("title", "text"))
            texts[word] = list(map(passage_text, *columns))
    return texts


def describe_question_words(index: Index, scheme: Scheme, question: str) -> str | None:
    """Return a sentence if the scheme's encoder does not know words of a question that passages contain, or any word.

    Methods with vectors rank by the other words then, so that the passages with these may come late.
    """
    name = index.encoder_of(scheme)
    if name is None:
        return None
    encoder = index.encoder
    checked = encoder.check_words(question)
    if checked is None:
        return None
    unknown = [word for word, is_known in checked.items() if not is_known]
    texts_with = find_words_in_passages(index, scheme, unknown)
    if texts_with:
        # a new fit learns words as they stand in the passages, and no other forms of them
        learns = any(word in (encoder.check_words(text) or ()) for word, texts in texts_with.items() for text in texts)
        form, advice = ("", f" {suggest_for_unknown_words(index)}") if learns else (" in other forms", "")
        return (
            f"The encoder {name} does not know {first_names(list(texts_with))}, which passages contain{form}: vectors "
            "rank by the other words, so these passages may come late or not at all. To search by words: --method bm25."
            f"{advice}"
        )
    if encoder.encode_queries([question]).any():
        return None
    known = [word for word in checked if word not in unknown]
    if known:
        return (
            f"The encoder {name} knows {first_names(known)}, but its vector of the question is empty, so nothing is "
            f"found by vectors. {suggest_for_unknown_words(index)}"
        )
    return (
        f"No word of the question is known to the encoder {name}, so nothing is found by vectors. Ask in words of "
        "the documents, or with a method that searches by words: --method bm25."
    )


def print_hits(question: str, retrieval: Retrieval, method: str, language: str, *, full: bool, explain: bool) -> None:
    """Print the method and the part of each hit that matches, with `full` all of it, with `explain` also each step."""
    words = find_question_words(question, language)
    heading = f"{many(len(retrieval.hits), 'hit')} by {method}" if retrieval.hits else f"No results with {method}."
    stdout().print(Text(strip_controls(heading), "dim" if retrieval.hits else ""))
    for rank, hit in enumerate(retrieval.hits, start=1):
        name = strip_controls(hit.title or hit.id)
        start = 0 if full else find_window(hit.text, words, language, _WINDOW)[0]
        place = strip_controls(format_positions(place_snippet(hit, start), hit.title) or ", ".join(hit.doc_ids))
        stdout().print(Text.assemble((f"{rank}. {name}", "bold"), f"  {hit.score:.4f}  ", (place, "dim")))
        stdout().print(
            mark_words(hit.text if full else cut_to_match(hit.text, words, language, _WINDOW), words, language)
        )
    several = len({step.iteration for step in retrieval.trace}) > 1
    for number, step in enumerate(retrieval.trace if explain else (), start=1):
        tokens = step.input_tokens + step.output_tokens
        cost = f", {many(tokens, 'token')}" if tokens else ""
        iteration = f", iteration {step.iteration}" if several else ""
        summary = f"Step {number}: {step.index}{iteration}, {step.ms:.1f} ms{cost}"
        stdout().print(Text(strip_controls(summary), style="bold dim"))
        for line in _format_details(step):
            stdout().print(Padding.indent(Text(strip_controls(line), style="dim"), 4))
    if explain and retrieval.trace:
        stdout().print(Text("The times include opening the index; ragindex compare measures latency.", style="dim"))


def mark_words(text: str, words: Sequence[QuestionWord], language: str) -> Text:
    """Return the text for a terminal, with the question's words in bold."""
    marked = Text(strip_controls(text))
    for start, end in find_matches(text, words, language):
        marked.stylize("bold", start, end)
    return marked


def cut_to_match(text: str, words: Sequence[QuestionWord], language: str, longest: int) -> str:
    """Return the part of a text with most of the question's words, with "…" where something is left out."""
    start, end = find_window(text, words, language, longest)
    before, after = text[:start].strip(), text[end:].strip()
    return f"{'… ' * bool(before)}{text[start:end]}{' …' * bool(after)}"


def _format_details(step: Step) -> list[str]:
    """Return lines with the query, the first ids, the note and the first triples and scored paths of a step."""
    ids = ", ".join(step.ids[:5]) + (f", … ({len(step.ids)})" if len(step.ids) > 5 else "")
    lines = [f"asked: {truncate(step.query, 100)}", *([f"found: {ids}"] if ids else [])]
    scores = [f"{score:.3f}  " for score in step.scores] or [""] * len(step.paths)
    paths = [("", (triple,)) for triple in step.triples] + list(zip(scores, step.paths, strict=False))
    path_lines = [truncate(score + format_path(path), 200) for score, path in paths[:_SHOWN_TRIPLES]]
    return [*lines, *([truncate(step.note, 200)] if step.note else []), *path_lines]


def truncate(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters, with "…" where more follow."""
    return text if len(text) <= longest else f"{text[:longest]}…"
