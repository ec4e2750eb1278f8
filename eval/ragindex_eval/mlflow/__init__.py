"""The evaluator in MLflow: studies, recommendations and judging sessions as runs, and retrievers as models."""
