"""Spans of a real transformers model for extractive QA: a tiny one, with weights set by hand or random by a seed.

Neither model has learned anything. The one with weights set by hand finds tokens by their embedding, so that its spans
are known; the random one is held equal to a search over all spans of its own logits.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast

from ragindex_eval.metrics.extractive_qa import SpanModel, open_span_model

WORDS = [
    *("[PAD]", "[CLS]", "[SEP]", "[UNK]"),
    *("when", "who", "it", "opened", "in", "1871", "by", "ada", "miller", ",", "."),
]
CONTEXT = "It opened in 1871, by Ada Miller."


def make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.normalizer = normalizers.Lowercase()
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=pair, special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **names)


def make_model(folder: Path) -> BertForQuestionAnswering:
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    model = BertForQuestionAnswering(config).eval()
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return model


def by_word(starts: dict[str, float], ends: dict[str, float]) -> SpanModel:
    """Start and end logits that depend on the token alone."""
    logits = {"start_logits": starts, "end_logits": ends}
    tables = {name: torch.tensor([logit.get(word, -5.0) for word in WORDS]) for name, logit in logits.items()}

    def model(input_ids: torch.Tensor, **_: Any) -> Any:
        return SimpleNamespace(**{name: table[input_ids] for name, table in tables.items()})

    return SpanModel(model, make_tokenizer(), "cpu")


def test_the_best_span_of_the_context() -> None:
    read = by_word({"ada": 3.0, "who": 9.0, "[CLS]": 0.0}, {"miller": 2.0, "ada": 1.0, "[CLS]": 0.0})
    assert read([("Who?", CONTEXT)]) == ["Ada Miller"]  # `who` is in the question, and no span ends before it starts
    backwards = by_word({"miller": 3.0, "[CLS]": 0.0}, {"ada": 3.0, "miller": 0.5, "[CLS]": 0.0})
    assert backwards([("Who?", CONTEXT)]) == ["Miller"]


def test_no_answer_wins_where_its_score_is_higher() -> None:
    logits = {"ada": 1.0, "[CLS]": 1.5}
    assert by_word(logits, logits)([("Who?", CONTEXT), ("Who?", ""), ("Who?", "  ")]) == ["", "", ""]
    assert by_word({**logits, "[CLS]": 1.0}, logits)([("Who?", CONTEXT)]) == [""]
    assert by_word({**logits, "[CLS]": 0.5}, logits)([("Who?", CONTEXT)]) == ["Ada"]  # equal scores


def test_a_long_context_is_read_in_windows() -> None:
    long = "It opened . " * 400 + "Ada Miller" + " , it" * 400
    read = by_word({"ada": 3.0, "[CLS]": 0.0}, {"miller": 3.0, "[CLS]": 0.0})
    assert read([("Who?", long)]) == ["Ada Miller"]
    assert read([("Who?", "Ada" + " it" * 40 + " Miller")]) == [""]  # more than 30 tokens, and `ada` alone ends badly


def test_a_model_of_transformers_is_read_from_its_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = make_model(tmp_path)
    capfd.readouterr()
    read = open_span_model(str(tmp_path))
    assert capfd.readouterr() == ("", "")  # no progress bars
    tokenizer = make_tokenizer()
    question = "Who opened it?"
    given = tokenizer(question, CONTEXT, return_tensors="pt", return_offsets_mapping=True)
    offsets, places = given.pop("offset_mapping")[0], given.sequence_ids(0)
    with torch.inference_mode():
        output = model(**given)
    starts, ends = output.start_logits[0].numpy(), output.end_logits[0].numpy()
    spans = {
        (int(offsets[i][0]), int(offsets[j][1])): starts[i] + ends[j]
        for i in range(len(places))
        for j in range(i, len(places))
        if places[i] == places[j] == 1
    }
    start, end = max(spans, key=lambda span: spans[span])
    expected = CONTEXT[start:end] if max(spans.values()) >= starts[0] + ends[0] else ""
    assert read([(question, CONTEXT), (question, CONTEXT)]) == [expected] * 2
    assert read.known == {(question, CONTEXT): expected}
    assert np.isfinite(starts).all()
