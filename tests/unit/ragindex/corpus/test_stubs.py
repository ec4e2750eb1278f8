"""Pages that only say where their content is now, as they are written, and short pages that have content."""

from pathlib import Path

import pytest

from ragindex import read
from ragindex.corpus.readers import READERS
from ragindex.corpus.stubs import is_stub

STUBS = {
    "ansible.rst": ":orphan:\n\nModule defaults\n===============\n\nThis page has moved to :ref:`module_defaults`.",
    "content.rst": "Scaleway Guide\n==============\n\nThe content on this page has moved to :ref:`a.docsite.guide`.\n",
    "been.rst": ":orphan:\n\nIncluding\n=========\n\nThe content on this page has been moved to :ref:`reuse`.\n",
    "docker.rst": (
        ":orphan:\n\nDocker Guide\n============\n\nThe content on this page has moved. Please see the updated "
        ":ref:`scenario_guide` in the `community.docker collection <https://galaxy.ansible.com/community/docker>`_.\n"
    ),
    "vault.rst": (
        "Using vault\n===========\n\nThe documentation regarding Ansible Vault has moved. The new location is here: "
        ":ref:`vault`. Please update any links you may have made directly to this page.\n"
    ),
    "roles.rst": (
        "Roles\n=====\n\nThe documentation regarding roles and includes for playbooks have moved. Their new location "
        "is here: :ref:`reuse`. Please update any links you may have made directly to this page.\n\n.. seealso::\n\n"
        "   :ref:`galaxy`\n       How to share roles on galaxy, role management\n   :ref:`playbooks`\n"
        "       Review the basic Playbook language features\n   :ref:`reuse`\n       Creating reusable Playbooks.\n"
    ),
    "pointer.md": "# Document Moved\n\nThis document has been moved to `docs/shared/journey-system.md`\n",
    "jekyll.html": (
        '<title>Redirecting…</title><h1>Redirecting…</h1><a href="/new">Click here if you are not redirected.</a>'
    ),
    "rocm.rst": (
        "Redirecting...\n==============\n\n.. important::\n\n   This page has moved! Go to "
        "`<https://rocm.docs.amd.com>`__ for the latest documentation.\n"
    ),
    "wiki.txt": "#REDIRECT [[Tide tables]]",
    "short.md": "Moved to [the handbook](handbook.md).",
    "docs.md": "# Tides\n\nThe Tides documentation has moved to https://tides.example.org/docs.\n",
}
PAGES = {
    "pier.md": "# The pier\n\nThe lighthouse has moved to the north pier.",
    "minutes.md": "# Minutes\n\nThe board moved to adjourn. The motion was carried.",
    "archive.md": "# Archive\n\nThe document has been moved to the archive of the harbour in 1931.",
    "office.txt": "Our office has moved to Quay Street 7. Opening hours: 9 to 5.",
    "redirects.md": "# Redirects\n\nA redirect sends a browser to another address. Set `Redirect: /new` in the header.",
    "see.md": "# Tides\n\nSee the tide tables. High water is at noon.",
    "history.md": (
        "# Harbour\n\nThis page was moved to this wiki in 2019.\n\nThe harbour has two basins. The outer one was dug "
        "in 1880, and ships of up to 90 metres enter it at high water. The inner one is for fishing boats alone."
    ),
    "notice.md": "# Queue\n\n> This document has been moved to `a/b.md`.\n\n"
    + "It describes the queue of tasks. " * 20,
}


@pytest.mark.parametrize("name", STUBS)
def test_stubs(name: str) -> None:
    path = Path(name)
    assert is_stub(READERS[path.suffix](STUBS[name].encode(), path, None))


@pytest.mark.parametrize("name", PAGES)
def test_short_pages_with_content(name: str) -> None:
    path = Path(name)
    assert not is_stub(READERS[path.suffix](PAGES[name].encode(), path, None))


def test_a_note_names_stubs_and_a_flag_leaves_them_out(tmp_path: Path) -> None:
    for name, text in {"old.md": STUBS["short.md"], "handbook.md": "# Handbook\n\nHigh water is at noon."}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    corpus = read(tmp_path)
    assert [document.id for document in corpus.documents] == ["handbook.md", "old.md"]
    (note,) = (note for note in corpus.notes if "--skip-stubs" in note)
    assert note.startswith("1 page only says where the content is now, and may rank before it: old.md.")
    corpus = read(tmp_path, skip_stubs=True)
    assert [document.id for document in corpus.documents] == ["handbook.md"]
    assert corpus.unread == {"old.md": "one of the pages whose content has moved"}
