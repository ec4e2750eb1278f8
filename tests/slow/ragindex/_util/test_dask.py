"""Builds on a real Dask cluster whose processes are killed: the index is that of one process, nothing is done twice."""

import random
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import ragindex as command
from dask_cluster import Cluster, cluster
from elasticsearch_node.node import store as elasticsearch_store
from histories import drawn
from histories.fresh import Fresh
from logged_encoder import Logged, list_encoded
from minilm import model_folder

import ragindex
from ragindex._util import executors, workers
from ragindex._util.workers import map_in_processes, use_workers
from ragindex.errors import RagindexError, ServiceError, UsageError
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document, Query

pytest.importorskip("distributed", reason="not installed: distributed")
COUNT, BATCH = 3_000, 256


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers that nobody kills."""
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def documents(count: int = COUNT) -> list[Document]:
    return [Document(f"d{n:05d}", f"Title {n}", f"abc {n} xyz {'q' * (n % 7)}") for n in range(count)]


def make_encoder(folder: Path, seconds: float = 0.002) -> Logged:
    folder.mkdir(exist_ok=True)
    return Logged(folder=str(folder), seconds=seconds)


def build(folder: Path, encoder: Logged, workers: str | None = None, store: str = "lancedb") -> list[tuple[str, float]]:
    with Index.open(folder, encoder=encoder, chunking=None, create=True, store=store) as index:
        if not len(index):
            index.add(documents())
        index.build("dense", workers=workers)
        hits = registry.scheme("dense").open(index).retrieve([Query("q", "qqq abc 17")], 50)[0].hits
        return [(hit.id, hit.score) for hit in hits]


@pytest.mark.parametrize("engine", ["lancedb", "elasticsearch"])
def test_killed_workers_cost_a_batch_each(engine: str, tmp_path: Path) -> None:
    """Both at different moments, one of them by its nanny's side, and each is replaced."""
    encoder, expected = make_encoder(tmp_path / "log"), build(tmp_path / "alone", make_encoder(tmp_path / "other", 0.0))

    def kill_workers() -> None:
        for number, share in enumerate((0.2, 0.5)):
            while len(list_encoded(tmp_path / "log")) < share * COUNT:
                time.sleep(0.05)
            time.sleep(0.2)  # in the middle of a batch
            running.kill_worker(number)
            running.add_worker()

    with cluster(tmp_path / "cluster") as running:
        killer = threading.Thread(target=kill_workers)
        killer.start()
        if engine == "elasticsearch":
            with elasticsearch_store() as store:
                answers = build(tmp_path / "index", encoder, f"dask:{running.address}", store)
            assert [id for id, _ in answers] == [id for id, _ in expected]
        else:
            assert build(tmp_path / "index", encoder, f"dask:{running.address}") == expected
        killer.join()
    started = list_encoded(tmp_path / "log", "started")
    assert len(set(started)) == COUNT
    assert len(started) - COUNT <= 4 * BATCH  # of each worker what it was at, and what it had not handed over


def test_dead_scheduler_is_an_error_and_the_next_build_goes_on(tmp_path: Path) -> None:
    encoder, expected = make_encoder(tmp_path / "log"), build(tmp_path / "alone", make_encoder(tmp_path / "other", 0.0))

    def kill_scheduler() -> None:
        while len(list_encoded(tmp_path / "log")) < COUNT / 2:
            time.sleep(0.05)
        time.sleep(0.2)
        running.scheduler.kill()

    with cluster(tmp_path / "cluster") as running:
        killer = threading.Thread(target=kill_scheduler)
        killer.start()
        message = r"Batch \d+ of encoding \(256 texts from .* failed \(the scheduler of the cluster has ended.*Start it"
        with pytest.raises(RagindexError, match=message):
            build(tmp_path / "index", encoder, f"dask:{running.address}")
        killer.join()
    with cluster(tmp_path / "cluster again") as running:
        assert build(tmp_path / "index", encoder, f"dask:{running.address}") == expected
    encoded = list_encoded(tmp_path / "log")
    assert len(set(encoded)) == COUNT
    assert len(encoded) - COUNT <= 2 * BATCH  # those whose result had nobody to go to


def test_batch_that_kills_its_workers_is_named(tmp_path: Path) -> None:
    encoder = make_encoder(tmp_path / "log")
    with (
        cluster(tmp_path / "cluster") as running,
        Index.open(tmp_path / "index", encoder=encoder, create=True) as index,
    ):
        index.add([*documents(600), Document("deadly", "Deadly", "deadly")])
        message = r"^Batch 3 of encoding \(89 texts from .*failed \(KilledWorker: .*4 different workers.*tcp://"
        with pytest.raises(RagindexError, match=message):
            index.build("dense", workers=f"dask:{running.address}")
        encoded = list_encoded(tmp_path / "log")
        assert len(set(encoded)) == 512
        (tmp_path / "log" / "spared").touch()
        index.build("dense", workers=f"dask:{running.address}")
        assert index.counts().passages == 601
    assert sorted(set(list_encoded(tmp_path / "log"))) == sorted(list_encoded(tmp_path / "log"))


def test_worker_with_another_model_or_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "weights").write_text("1")
    (tmp_path / "there").mkdir()
    monkeypatch.setenv("WEIGHTS", str(tmp_path / "here"))
    encoder = make_encoder(tmp_path / "log", 0.0)
    with cluster(tmp_path / "cluster", 1, WEIGHTS=str(tmp_path / "there")) as running:
        with pytest.raises(UsageError, match=r"cannot be opened on worker tcp://.*No such file.*weights"):
            build(tmp_path / "index", encoder, f"dask:{running.address}")
        (tmp_path / "there" / "weights").write_text("2")
        with pytest.raises(UsageError, match=r"of worker tcp://.* its id is logged 2, where logged 1 is expected"):
            build(tmp_path / "index", encoder, f"dask:{running.address}")
    assert list_encoded(tmp_path / "log") == []


@pytest.mark.filterwarnings("ignore:Mismatched versions found")  # Dask's own word
def test_worker_with_other_versions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SERIAL_SECONDS", 0.0)
    (tmp_path / "numpy-0.9.dist-info").mkdir()
    (tmp_path / "numpy-0.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.9\n")
    with (
        cluster(tmp_path / "cluster", 1, PYTHONPATH=str(tmp_path)) as running,
        use_workers(f"dask:{running.address}"),
        pytest.raises(UsageError, match=r"^The worker tcp://.* has numpy 0\.9, where .* results could differ"),
    ):
        list(map_in_processes(abs, [-1]))


def test_cluster_without_workers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SERIAL_SECONDS", 0.0)
    monkeypatch.setattr(executors, "_CHECK_SECONDS", 0.2)
    monkeypatch.setattr(executors, "_NO_WORKER_SECONDS", 1.0)
    message = "no worker for 1 seconds.*start some with: dask worker tcp://"
    with (
        cluster(tmp_path, 0) as running,
        use_workers(f"dask:{running.address}"),
        pytest.raises(ServiceError, match=message),
    ):
        list(map_in_processes(abs, [-1]))


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_CONNECT_SECONDS", 0.5)
    message = r"^--workers dask:tcp://127.0.0.1:9: no scheduler answers \(.*Start one with: dask scheduler$"
    with pytest.raises(ServiceError, match=message), use_workers("dask:tcp://127.0.0.1:9"):
        pass


def test_command_with_a_model(tmp_path: Path, steady: Cluster) -> None:
    """A model of sentence-transformers, rules and files that workers read."""
    for number in range(8):
        text = "".join(f"<p>Ada Miller number {number} was born in Lindau in 18{line}.</p>" for line in range(10, 70))
        page = f"<html><title>Page {number}</title><body>{text * 12}</body></html>"
        (tmp_path / "pages").mkdir(exist_ok=True)
        (tmp_path / "pages" / f"{number}.html").write_text(page)
    given = ("--encoder", f'sentence-transformers(model="{model_folder()}",engine=onnxruntime)')
    outputs = []
    for name, more in {"alone": (), "cluster": ("--workers", f"dask:{steady.address}")}.items():
        index = ("--index", tmp_path / name)
        assert command("index", tmp_path / "pages", *index, "--methods", "dense", *given, *more).code == 0
        outputs.append(command("search", "Who was born in Lindau in 1812?", *index, "--json", "-", "-k", 5).json)
    hits = [[(hit["id"], round(hit["score"], 5)) for hit in output["hits"]] for output in outputs]
    assert hits[0] == hits[1] != []


@pytest.mark.parametrize("seed", range(2))
def test_drawn_history(seed: int, tmp_path: Path, steady: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SERIAL_SECONDS", 0.0)
    rng = random.Random(seed)
    chosen = replace(drawn.setting(rng, 1.0), methods=("hybrid", "composed triples"))
    with use_workers(f"dask:{steady.address}"):
        outcome = drawn.play(chosen, drawn.steps(rng, chosen), Fresh(tmp_path))
    assert not outcome.broken, outcome


def test_rules_and_clusters_are_those_of_one_process(
    tmp_path: Path, steady: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "SERIAL_SECONDS", 0.0)
    texts = [f"Ada Miller {n} was born in Lindau. Tom Reed {n % 9} met Ada Miller {n} in Bern." for n in range(60)]
    answers = []
    for workers_given in (None, f"dask:{steady.address}"):
        with ragindex.open(tmp_path / str(workers_given)[:4], encoder="lsa", chunking=None, create=True) as index:
            index.add([Document(str(n), f"Title {n}", text) for n, text in enumerate(texts)])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                index.build("raptor", "hipporag", workers=workers_given)
            retrievers = [index.retriever(name) for name in ("raptor", "hipporag")]
            answers.append([hit.id for each in retrievers for hit in each.search("Who met Ada Miller 7?", k=10)])
    assert answers[0] == answers[1]
