"""Commands on an index in Elasticsearch answer with the encoder that they name."""

from collections.abc import Sequence

from elasticsearch_node.node import store as elasticsearch_store
from encoder_commands import ONE, STEPS, TWO, Step, play_all
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import examples


@settings(max_examples=examples(1))
@given(steps=st.lists(STEPS, min_size=2, max_size=4))
@example(steps=[Step("compare", ONE), Step("index", TWO), Step("recommend", ONE, 7), Step("gate"), Step("search", TWO)])
def test_commands_answer_with_the_encoder_that_they_name(steps: Sequence[Step]) -> None:
    with elasticsearch_store() as store:
        play_all(steps, store)
