"""The code of an exported retriever as an MLflow model: MLflow copies this file into the model, and pickles nothing.

`mlflow.pyfunc.load_model(URI, model_config={"allow_hosts": [...]})` names the hosts that the retriever may contact.
"""

import mlflow
from mlflow.pyfunc.model import PythonModel, PythonModelContext

import ragindex


class RetrieverModel(PythonModel):
    """Questions in, hits out: `predict` takes a list or a one-column DataFrame of questions, and the parameter `k`."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the packed retriever of the model."""
        self.retriever = ragindex.load(context.artifacts["retriever"], **dict(context.model_config or {}))

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # mlflow warns of other hints
        """Return the hits of each question, best first: id, score, title, text, doc_ids."""
        questions = model_input.iloc[:, 0] if hasattr(model_input, "iloc") else model_input
        many = self.retriever.search_many([str(question) for question in questions], int((params or {}).get("k", 5)))
        names = ("id", "score", "title", "text")
        return [
            [{**{name: getattr(hit, name) for name in names}, "doc_ids": list(hit.doc_ids)} for hit in hits]
            for hits in many
        ]


mlflow.models.set_model(RetrieverModel())
