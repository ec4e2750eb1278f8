"""Requests that can wait, sent through OpenAI's Batch API at half the price.

`deferral` says which calls can wait. `batch_calls` fills the cache of answers: it sends what is missing (`send`), waits
(`wait`) and collects answers (`collect`, `results`). `endpoint` speaks the protocol, and `records` keeps what is on its
way.
"""
