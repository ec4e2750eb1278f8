"""The commands compare, demo, report, estimate and questions."""
