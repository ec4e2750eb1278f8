"""Judging what methods find: pools, sessions in terminal and browser, a model as judge, and estimates of both."""
