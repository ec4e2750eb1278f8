"""Notes on what an encoder leaves unread: by hand, over changes and removals, for both kinds of vectors."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from letters import Letters, LettersEncoder
from made_trees import notes

from ragindex.index.index import Index
from ragindex.interfaces import EncoderPlugin, TokenEmbeddings
from ragindex.interfaces.llm import LLMSettings
from ragindex.plugins import registry
from ragindex.types import Document


class Short(EncoderPlugin):
    """Reads four words of a text."""

    argument: ClassVar[str] = "name"
    name: str = "short"

    def open(self, setting: LLMSettings | None = None) -> "ShortEncoder":
        return ShortEncoder("short")


class ShortEncoder(LettersEncoder):
    max_tokens = 4

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        words, at = [], 0
        for word in text.split():
            at = text.index(word, at)
            words.append((at, at + len(word)))
            at += len(word)
        return words

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        return [TokenEmbeddings(tuple(self.token_spans(text)), self.encode_queries(text.split())) for text in texts]

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[object, list[TokenEmbeddings]]:
        return self.encode_queries(texts), self.encode_tokens(texts)


def test_what_is_not_read_is_noted(tmp_path: Path) -> None:
    parts = [registry.part(name) for name in ("vectors", "token_vectors")]
    with Index.open(tmp_path, encoder=Short(), chunking=None, create=True) as workspace:
        workspace.add([Document("a", "T", "one two three"), Document("b", "T", "one two three four five six")])
        workspace.build(*parts)
        # 4 and 7 words with the title, so 3 of 11 are not read
        message = f"1 of 2 texts is longer than the 4 tokens that the encoder {workspace.encoder.id} reads"
        unread = "27.3% of all tokens are not encoded. Chunk smaller: over=passages(by=tokens, size=3)"
        for name in ("vectors", "token_vectors"):
            assert notes(workspace, name) == [f"{message}: {unread}"]
        workspace.add([Document("a", "T", "one two three four"), Document("c", "", "one")])
        workspace.build(*parts)
        # 5, 7 and 1 words: 1 + 3 of 13
        for name in ("vectors", "token_vectors"):
            (note,) = notes(workspace, name)
            assert note.startswith("2 of 3 texts are longer than the 4 tokens")
            assert "30.8% of all tokens" in note
        workspace.remove(["a", "b"])
        workspace.build(*parts)
        assert [notes(workspace, name) for name in ("vectors", "token_vectors")] == [[], []]


def test_an_encoder_without_a_limit_stores_no_counts(tmp_path: Path) -> None:
    part = registry.part("vectors")
    with Index.open(tmp_path, encoder=Letters(), chunking=None, create=True) as workspace:
        workspace.add([Document("a", "T", "one two three")])
        workspace.build(part)
        assert "tokens" not in workspace.open_part(part).fields()
        assert notes(workspace, "vectors") == []
