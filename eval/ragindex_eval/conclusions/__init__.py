"""What follows from the figures of a comparison: intervals, tests, leaders, what the questions show, sentences."""
