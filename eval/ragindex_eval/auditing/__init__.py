"""Audits of results by others: what a printed table, ranking files and question files can and cannot show."""
