"""Statistics: intervals, paired tests, seeds, and the sentences that follow from them."""
