"""Real Elasticsearch nodes for the tests: put together from Maven Central, started on free ports of 127.0.0.1.

`address()` is what tests call: ELASTICSEARCH_URL where that is set, else a node that the test processes of one checkout
share. `make elasticsearch` runs one until it is interrupted.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from memory_folder import folder_in_memory

from ragindex.stores.elasticsearch.client import connect

HERE = Path(__file__).resolve().parent
FOLDER = HERE / ".node"
HOME, SHARED = FOLDER / "home", FOLDER / "shared"
VERSION = "8.19.0"
NEEDED = ("java", "javac", "mvn")
_OLDEST_JAVA = 17
_PATIENCE = 300.0
_REMEMBERED = 600.0  # seconds that a failed fetch is not tried again
_LOG = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class NoNodeError(Exception):
    """Why there can be no node here."""


# ---------------------------------------------------------------- what tests call


def address() -> str:
    """Where a server answers; skips the test, with the reason, where none is to be had."""
    pytest.importorskip("elasticsearch", reason="the extra elasticsearch is not installed")
    given = os.environ.get("ELASTICSEARCH_URL", "").strip()
    if given:
        return given
    url, reason = _shared()
    if reason:
        pytest.skip(f"no Elasticsearch: {reason}; ELASTICSEARCH_URL can name a server")
    return url


@contextmanager
def store(**parameters: Any) -> Iterator[str]:
    """A store as it is written, on the server at `address()`, whose indices are deleted in the end."""
    prefix = f"ragindex_tests.{uuid.uuid4().hex[:12]}"
    given = {"prefix": prefix, **parameters}
    written = ", ".join(f"{name}={json.dumps(value)}" for name, value in given.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELASTICSEARCH_URL", address())
        yield f"elasticsearch({written})"
        server = connect(None, 60.0, 3)
        left = server.client.indices.get(index=f"{prefix}-*", filter_path="*.settings.index.uuid")
        for index in dict(left):
            server.client.indices.delete(index=index)


@cache
def _shared() -> tuple[str, str]:
    """The address of the checkout's shared node, which this process now uses, or why there is none."""
    try:
        FOLDER.mkdir(exist_ok=True)
        with FileLock(FOLDER / "lock"):
            build()
            running = _running()
            return f"http://127.0.0.1:{(running or start(SHARED, place())).port}", ""
    except NoNodeError as error:
        return "", str(error)


def _running() -> "Node | None":
    """The shared node, if it is up; it will stay as long as this process lives."""
    state = SHARED / "node.json"
    if not state.exists():
        return None
    node = Node(SHARED, **json.loads(state.read_text()))
    node.use()
    return node if node.alive() and node.answers() else None


# ---------------------------------------------------------------- one node


_STARTED: list[subprocess.Popen[bytes]] = []  # a node outlives whoever forgets its process


@dataclass(frozen=True, slots=True)
class Node:
    """A node that was started; `run` holds its log and who uses it."""

    run: Path
    pid: int
    port: int

    def use(self) -> None:
        """It stays as long as this process lives."""
        (self.run / "users").mkdir(parents=True, exist_ok=True)
        (self.run / "users" / str(os.getpid())).touch()

    def alive(self) -> bool:
        """Whether its process is there."""
        for process in _STARTED:
            process.poll()  # one that has ended is there until it is asked for
        try:
            return (
                "StartNode" in Path(f"/proc/{self.pid}/cmdline").read_text()
                if Path("/proc").is_dir()
                else _is(self.pid)
            )
        except OSError:
            return False

    def answers(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/_cluster/health", timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self, how: int = signal.SIGTERM) -> None:
        """By its own pid; SIGKILL is an accident."""
        try:
            os.kill(self.pid, how)
        except ProcessLookupError:
            return
        for _ in range(300):
            if not self.alive():
                return
            time.sleep(0.1)


def _is(pid: int) -> bool:
    os.kill(pid, 0)
    return True


def start(run: Path, data: Path, settings: Sequence[str] = (), *, heap: str = "512m") -> Node:
    """A node with its files in `data`, which are deleted when it stops, but not when it is killed.

    ES_JAVA_HOME and ES_JAVA_OPTS are heeded, as by Elasticsearch's own start script: options given there win. Without
    them a node is made to start soon and to take little memory, not to answer fast.

    Raises NoNodeError with the end of its log where it does not come up.
    """
    shutil.rmtree(run, ignore_errors=True)
    (run / "users").mkdir(parents=True)
    (run / "users" / str(os.getpid())).touch()
    (run / "throwaway").write_text(str(data))
    alone = () if any(setting.startswith("discovery.") for setting in settings) else ("discovery.type=single-node",)
    names = (
        f"path.data={data}",
        "http.port=0",
        "transport.port=0",
        "http.max_content_length=8mb",
        "indices.breaker.total.use_real_memory=false",  # it would count what the serial collector has not yet collected
        f"node.name={run.name}",
        "cluster.name=ragindex-tests",
    )
    given = {name.partition("=")[0]: name for name in (*names, *alone, *settings)}
    memory = [f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    classes = f"{HOME / 'classes'}{os.pathsep}{HOME / 'lib' / '*'}"
    java = str(Path(os.environ["ES_JAVA_HOME"]) / "bin" / "java") if os.environ.get("ES_JAVA_HOME") else "java"
    options = [*memory, *os.environ.get("ES_JAVA_OPTS", "").split()]
    command = [java, *options, "-cp", classes, "StartNode", str(HOME), str(run), *given.values()]
    with (run / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    _STARTED.append(process)
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if (run / "port").exists():
            node = Node(run, process.pid, int((run / "port").read_text()))
            (run / "node.json").write_text(json.dumps({"pid": node.pid, "port": node.port}))
            return node
        time.sleep(0.1)
    process.kill()
    raise NoNodeError(f"the node did not start: {' '.join((run / 'log').read_text()[-400:].split())}")


def place(name: str = "shared") -> Path:
    """For files that need not outlive a node; in memory where enough is left, for tests wait on hundreds of syncs."""
    of = hashlib.sha256(str(FOLDER).encode()).hexdigest()[:12]
    folder = folder_in_memory(2 << 30) / f"ragindex-elasticsearch-{of}-{name}"
    shutil.rmtree(folder, ignore_errors=True)  # of a node that is gone: its lock is held
    return folder


# ---------------------------------------------------------------- putting it together


def build() -> None:
    """Fetch the jars and compile the two classes beside this file, once. Raises NoNodeError."""
    ready, failed = HOME / f".ready-{VERSION}", FOLDER / "failed"
    if ready.exists():
        return
    if failed.exists() and time.time() - failed.stat().st_mtime < _REMEMBERED:
        raise NoNodeError(failed.read_text())
    try:
        _check_java()
        shutil.rmtree(HOME, ignore_errors=True)
        _run(["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), f"-Dhome={HOME}", "package"], "Maven gives no jars")
        _compile()
    except NoNodeError as error:
        failed.write_text(str(error))
        raise
    ready.touch()


def _check_java() -> None:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise NoNodeError(f"{' and '.join(missing)} not installed (Java {_OLDEST_JAVA}, Maven)")
    version = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    words = f"{version.stdout} {version.stderr}".split()
    if len(words) < 2 or int(words[1].split(".")[0]) < _OLDEST_JAVA:
        raise NoNodeError(f"Java {_OLDEST_JAVA} is needed, not {' '.join(words)}")


def _compile() -> None:
    config, module = HOME / "config", HOME / "modules" / "root"
    for folder in (config, HOME / "logs", HOME / "classes", module):
        folder.mkdir(parents=True, exist_ok=True)
    (config / "log4j2.properties").write_text(_LOG)
    jars = str(HOME / "lib" / "*")
    _run(["javac", "-nowarn", "-cp", jars, "-d", str(HOME / "classes"), str(HERE / "StartNode.java")], "javac")
    with tempfile.TemporaryDirectory() as classes:
        _run(["javac", "-nowarn", "-cp", jars, "-d", classes, str(HERE / "RootPlugin.java")], "javac")
        shutil.make_archive(str(module / "root"), "zip", classes)
    (module / "root.zip").rename(module / "root.jar")
    _describe("root", "ragindex.tests.RootPlugin")
    _describe("transport-netty4", "org.elasticsearch.transport.netty4.Netty4Plugin")


def _describe(module: str, plugin: str) -> None:
    lines = {
        "name": module,
        "classname": plugin,
        "description": module,
        "version": VERSION,
        "java.version": _OLDEST_JAVA,
    }
    text = "".join(f"{key}={value}\n" for key, value in {**lines, "elasticsearch.version": VERSION}.items())
    (HOME / "modules" / module / "plugin-descriptor.properties").write_text(text)


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise NoNodeError(f"{what}: nothing after {_PATIENCE:.0f} s") from None
    if done.returncode:
        raise NoNodeError(f"{what}: {' '.join((done.stdout + done.stderr).split())[:300]}")


def main() -> None:
    """The shared node, as long as nobody interrupts this."""
    url, reason = _shared()
    if reason:
        sys.exit(f"No Elasticsearch here: {reason}.")
    print(
        f"Elasticsearch {VERSION} answers; to use it: export ELASTICSEARCH_URL={url}\nInterrupt (Ctrl-C) to stop.",
        flush=True,
    )
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        pass  # it stops by itself once nobody uses it


if __name__ == "__main__":
    main()
