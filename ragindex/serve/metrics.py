"""Prometheus metrics of a server. Each server has a registry of its own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class ServerMetrics:
    """The metrics that the parts of a server update."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "ragindex_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "ragindex_request_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=self.registry
        )
        self.working = Gauge("ragindex_working", "Searches and answers in progress.", registry=self.registry)
        self.refused = Counter(
            "ragindex_refused",
            "Requests refused because of the cap on concurrency or time.",
            ["why"],
            registry=self.registry,
        )
        self.searches = Counter(
            "ragindex_searches", "Searches by collection and method.", ["collection", "method"], registry=self.registry
        )
        self.pending = Gauge(
            "ragindex_pending_documents",
            "Accepted changes that are not searched yet.",
            ["collection"],
            registry=self.registry,
        )
        self.state_time = Gauge(
            "ragindex_state_timestamp_seconds",
            "When the state that is searched was opened.",
            ["collection"],
            registry=self.registry,
        )
        self.sync_failures = Counter(
            "ragindex_sync_failures", "Times that the sync process failed.", ["collection"], registry=self.registry
        )
        self.tokens = Counter(
            "ragindex_paid_tokens", "Tokens paid for by requests, by key.", ["key"], registry=self.registry
        )
        self.dollars = Counter(
            "ragindex_paid_dollars",
            "Dollars paid by requests, by key; unknown prices count 0.",
            ["key"],
            registry=self.registry,
        )

    def render(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        return generate_latest(self.registry)
