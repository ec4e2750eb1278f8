"""Documents inside of files: mails of a mailbox, and attachments."""

from pathlib import Path

import ragindex


def test_inner_documents_have_the_id_of_their_file(tmp_path: Path) -> None:
    mail = (
        "Subject: Tides\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nSee the list.\n--B\n"
        'Content-Type: text/csv; name="hours.csv"\n\nport,hour\nEly,7\n--B\n'
        'Content-Type: image/png; name="map.png"\n\nx\n--B--\n'
    )
    (tmp_path / "a.eml").write_text(mail)
    (tmp_path / "b.mbox").write_text(f"From x\nMessage-ID: <1@x>\n{mail}\nFrom x\nSubject: Ebb\n\nIt is low.\n")
    corpus = ragindex.read(tmp_path)
    assert [(document.id, document.title, document.metadata["source"]) for document in corpus.documents] == [
        ("a.eml", "Tides", "a.eml"),
        ("a.eml/hours.csv", "hours.csv", "a.eml"),
        ("b.mbox/1@x", "Tides", "b.mbox"),
        ("b.mbox/1@x/hours.csv", "hours.csv", "b.mbox"),
        ("b.mbox/2", "Ebb", "b.mbox"),
    ]
    assert corpus.notes[:2] == (
        "a.eml: attachments that no reader takes: map.png",
        "b.mbox: mail 1@x: attachments that no reader takes: map.png",
    )
    assert "Ely" in corpus.documents[1].text
