"""The errors that ragindex raises on purpose.

A message names the part at fault, what was allowed, what was given, and what to do next. Messages never contain
secrets: anything that looks like one is removed, also from quoted texts.

    RagindexError                 exit code 1
    ├── UsageError                2   a parameter, a name or a flag is wrong
    │   ├── UnknownNameError
    │   ├── NameTakenError
    │   ├── MissingExtraError         an optional package is not installed
    │   └── BrokenPluginError         an installed plugin cannot be loaded or is not a plugin
    ├── DataError                 3   a document, a question or a file cannot be read
    ├── WorkspaceError            4   the index cannot do what was requested
    │   ├── MissingPartError          a scheme is opened before its parts are made
    │   ├── NewerFormatError          made by a later version of ragindex
    │   └── WriterBusyError           another process is writing
    ├── StoreError                5   the store's engine or the disk failed
    │   ├── DamagedError              a file of the index is damaged
    │   └── EngineError               the engine failed on its own files
    ├── ServiceError              6   a remote endpoint cannot be used: every request would fail
    │   └── RequestError              one request failed; others may succeed
    │       └── LLMError              an LLM gave no usable answer to one input
    ├── QuestionError             7   a method failed on every question, or on one question in strict mode
    ├── BelowThresholdError       8   a comparison is complete, and a metric is below the required minimum
    ├── BudgetError               9   the next call could cost more than is left of the budget
    ├── ContractError            10   a retriever returned an answer that breaks its contract
    ├── LeftOutError             11   the work is done, without the files that cannot be read
    ├── GateFailedError          12   a method is worse than its baseline by more than the margin
    └── GateUndecidedError       13   the questions do not tell whether it is
"""

from pathlib import Path
from typing import Any, ClassVar

from ragindex._util.redaction import hide_secrets
from ragindex._util.text import many


class RagindexError(Exception):
    """The base class of every error that ragindex raises on purpose; the message says what to do next.

    Example:
        try:
            index.retriever("raptor")
        except ragindex.RagindexError as error:
            print(error)
    """

    exit_code: ClassVar[int] = 1
    label: ClassVar[str] = "error"
    """What the command line puts before the message."""

    def __init__(self, *texts: object) -> None:
        super().__init__(*(hide_secrets(text) if isinstance(text, str) else text for text in texts))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error to another process: its constructor may take other arguments than `args`."""
        return _copy_error, (type(self), self.args, self.__dict__)


def _copy_error(kind: type[RagindexError], args: tuple[object, ...], attributes: dict[str, Any]) -> RagindexError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class UsageError(RagindexError):
    """A parameter, a name or a flag is wrong."""

    exit_code = 2


class UnknownNameError(UsageError):
    """No plugin of that name is installed; the message lists similar names."""


class NameTakenError(UsageError):
    """Two distributions register different objects under one name."""


class MissingExtraError(UsageError):
    """An optional package is missing; the message contains the install command."""


class BrokenPluginError(UsageError):
    """An installed plugin cannot be loaded or created, cannot list its parts, or has the wrong type for its group."""


class DataError(RagindexError):
    """Input that cannot be read: the message names the file, the line, what was expected and what was found."""

    exit_code = 3

    def __init__(self, expected: str, found: str, *, path: Path | str | None = None, line: int | None = None) -> None:
        self.path, self.line, self.expected, self.found = path, line, expected, found
        super().__init__(f"{self.place}: {self.reason}" if self.place else self.reason)

    @property
    def place(self) -> str:
        """The file, with the line if it is known; "" if there is none."""
        file = "" if self.path is None else hide_secrets(str(self.path))
        return f"{file}, line {self.line}" if file and self.line is not None else file

    @property
    def reason(self) -> str:
        """What was expected and what was found, in a sentence. A command at its end is followed by nothing."""
        end = "" if self.found.endswith(".") or " Run: " in self.found else "."
        return hide_secrets(f"expected {self.expected}; found {self.found}{end}")


class WorkspaceError(RagindexError):
    """The index cannot do what was requested."""

    exit_code = 4


class MissingPartError(WorkspaceError):
    """A method is opened before its parts are built."""


class NewerFormatError(WorkspaceError):
    """The index was created by a later version of ragindex."""


class WriterBusyError(WorkspaceError):
    """Another process holds the writer's lease; `holder` describes it."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            f"Another process is writing to the index: {holder}. "
            "Wait for it (commands with --wait SECONDS), or stop it."
        )


class StoreError(RagindexError):
    """The store's engine or the disk failed."""

    exit_code = 5


class DamagedError(StoreError):
    """A file of the index is damaged; the message names it and the command that repairs it."""


class EngineError(StoreError):
    """The engine failed on its own files, which may be damaged."""


class ServiceError(RagindexError):
    """A remote endpoint cannot be used (wrong key, missing model): every request would fail."""

    exit_code = 6


class RequestError(ServiceError):
    """One request failed after all retries; others may succeed."""


class LLMError(RequestError):
    """An LLM gave no usable answer to one input; others may succeed.

    `kind` is refusal, empty, truncated, malformed, rejected (the endpoint refused the input) or unreachable. An input
    that is `set_aside` has had two charged answers that cannot be used, and is not asked about again by itself.
    """

    def __init__(self, message: str, kind: str = "malformed", *, set_aside: bool = False) -> None:
        super().__init__(message)
        self.kind, self.set_aside = kind, set_aside


class QuestionError(RagindexError):
    """A method failed on every question, or on one question in `strict` mode."""

    exit_code = 7


class BelowThresholdError(RagindexError):
    """A comparison is complete, and a metric is lower than `--fail-below` allows."""

    exit_code = 8


class BudgetError(RagindexError):
    """The next call could exceed `--budget`; progress is saved."""

    exit_code = 9


class DailyBudgetError(BudgetError):
    """The next call could exceed what all runs together may pay in a day; progress is saved."""


class ContractError(RagindexError):
    """A retriever broke its contract: its answer cannot be scored, and the comparison stops."""

    exit_code = 10


class LeftOutError(RagindexError):
    """The work is done, without the files that cannot be read."""

    exit_code = 11

    def __init__(self, count: int) -> None:
        were = many(count, "file that cannot be read was", "files that cannot be read were")
        super().__init__(
            f"{were} left out, as listed above; everything else is done. Repair or remove them and run the "
            "command again, leave them out with --skip-bad, or stop at the first one with --strict."
        )


class GateFailedError(RagindexError):
    """A method is worse than its baseline by more than the margin."""

    exit_code = 12
    label = "FAIL"


class GateUndecidedError(RagindexError):
    """The questions do not tell whether a method is worse than its baseline by more than the margin."""

    exit_code = 13
    label = "UNDECIDED"


# ---------------------------------------------------------------- warnings


class StaleWarning(UserWarning):
    """A part or an answer is older than the corpus: results reflect the corpus of the last finished sync."""


class LeftoverWarning(UserWarning):
    """A sync finished, but files or versions that no reader needs any more could not be removed."""


class OtherLibrariesWarning(UserWarning):
    """A retriever was exported with other versions of libraries that scores can depend on."""


class LeftOutWarning(UserWarning):
    """Files that cannot be read were left out of a corpus; `Corpus.skipped` says why."""


class LanguageWarning(UserWarning):
    """The documents seem to be in another language than the index is set to."""


class ZeroPriceWarning(UserWarning):
    """A service on a public host has the price 0, which no budget limits."""
