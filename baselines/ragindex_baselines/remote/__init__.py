"""A retriever that runs elsewhere, asked over HTTP: the method `http`."""
