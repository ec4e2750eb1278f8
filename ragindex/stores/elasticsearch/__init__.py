"""The Elasticsearch store, for corpora that exceed one machine."""
