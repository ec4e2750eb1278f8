"""The stores behind one interface: LanceDB (embedded) and Elasticsearch."""

import os

# LanceDB reads this variable when it is first imported. By default it logs a warning for every small cluster of
# vectors, which writes thousands of lines over the progress bar for an index of 100,000 vectors.
os.environ.setdefault("LANCEDB_LOG", "error")
