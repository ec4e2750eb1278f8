"""Requests that can wait, sent through OpenAI's Batch API at the price of batches.

`ragindex.llm.tasks.answers_can_wait` says which calls can wait. `calls` fills the cache of answers: it chooses what is
sent, waits and collects answers. `endpoint` speaks the protocol, sends batches and records those that are on their way.
"""
