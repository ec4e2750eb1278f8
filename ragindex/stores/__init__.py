"""Engines behind one interface: LanceDB, embedded, and Elasticsearch."""

import os

# LanceDB's engine reads this when it is first imported. At its default, a warning for every small cluster of vectors,
# an index over 100,000 vectors writes thousands of lines over the progress bar.
os.environ.setdefault("LANCEDB_LOG", "error")
