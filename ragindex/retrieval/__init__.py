"""What retrievers share: hits, fusion, traces."""
