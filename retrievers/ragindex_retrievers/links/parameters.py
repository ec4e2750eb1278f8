"""The parameters of links."""

from pydantic import Field

from ragindex.interfaces import Scheme
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField


class LinksParameters(Scheme):
    """The parameters of `links`, with the values of its page; none of them was fitted to questions."""

    over: PassagesField = OVER_PASSAGES
    depth: int = Field(default=100, ge=1, description="Best results of BM25 and of dense that are candidates.")
    weight: float = Field(default=2 / 3, ge=0, le=1, description="Weight of the cosine; BM25 has the rest.")
    seeds: int = Field(default=5, ge=0, description="Best passages whose links are followed, in each hop.")
    hops: int = Field(default=1, ge=1, le=4, description="How often links are followed.")
    link_weight: float = Field(default=0.3, ge=0, description="Worth of a link that adds nothing to the question.")
    novelty_weight: float = Field(
        default=1.0, ge=0, description="Worth of the question's BM25 score that a linked passage adds to its seed's."
    )
    backward: float = Field(default=0.7, ge=0, description="Weight of links from passages that mention a seed.")
    title_bonus: float = Field(default=0.1, ge=0, description="Added to the candidates that the question names.")
    max_mentions: int = Field(
        default=40, ge=1, description="Names that more documents mention, or that more documents have, link nothing."
    )
    confirmed_titles: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of documents that must begin with a word of their title, for titles to be names.",
    )
