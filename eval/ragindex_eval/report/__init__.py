"""The report of a study: one HTML file with tables and plots."""
