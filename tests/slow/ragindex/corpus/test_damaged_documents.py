"""Damaged files of each format end as text or as one error, within the limits of reading."""

from random import Random

import pytest
from damaged_documents import ENDS, damage, read_damaged
from written_documents import FORMATS, KINDS, limit_pages, number_words

from ragindex.corpus.readers.process import ReadingLimits
from ragindex.corpus.reading_processes import ReadingProcesses

COPIES = 20


@pytest.mark.parametrize("suffix", FORMATS)
def test_damaged_copies_are_read_or_refused(suffix: str) -> None:
    random, faults = Random(suffix), list[tuple[int, str, str]]()
    with ReadingProcesses() as processes:
        for number in range(COPIES):
            shape = [[(random.choice(KINDS), random.randint(1, 3)) for _ in range(8)] for _ in range(3)]
            written = FORMATS[suffix].write(limit_pages(number_words(shape), FORMATS[suffix]))
            raw = written if isinstance(written, bytes) else written.encode()
            copy = damage(raw, suffix, f"{suffix} {number}")
            end, detail = read_damaged(copy, suffix, processes, ReadingLimits())
            faults += [] if end in ENDS else [(number, end, detail)]
    assert faults == []
