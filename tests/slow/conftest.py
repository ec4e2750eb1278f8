"""Tests of packages that `make test` does not install are not collected where these are missing."""

from importlib.util import find_spec

NEEDED = {
    "baselines/test_colbert.py": "sentence_transformers",
    "baselines/test_rerank.py": "sentence_transformers",
    "eval/metrics/test_answers.py": "torchmetrics",
    "eval/metrics/test_extractive_qa.py": "transformers",
    "ragindex/encoders/test_sentence_transformer.py": "sentence_transformers",
    "ragindex/integrations/test_dspy.py": "dspy",
    "ragindex/serve/test_litellm.py": "litellm",
}
collect_ignore = [file for file, package in NEEDED.items() if find_spec(package) is None]
