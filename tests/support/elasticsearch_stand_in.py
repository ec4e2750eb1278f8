"""A stand-in for what a bare node cannot be: keys, TLS, other versions, a full queue. A real server on 127.0.0.1.

It answers the few requests that a test is about; all else is tested on real nodes.
"""

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Answer = tuple[int, Any]
INFO = {"version": {"number": "8.19.0"}, "tagline": "You Know, for Search"}


def failed(kind: str, reason: str, status: int) -> Answer:
    """An error as the server says it."""
    return status, {"error": {"type": kind, "reason": reason, "root_cause": []}, "status": status}


class StandIn:
    """Answers `answer(path, body, authorization)`; over TLS with a certificate; what it `heard` are paths and keys."""

    def __init__(
        self,
        answer: Callable[[str, str, str], Answer],
        product: str = "Elasticsearch",
        certificate: "Certificate | None" = None,
    ) -> None:
        self.heard: list[tuple[str, str]] = []
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                stand_in.heard.append((self.path, self.headers.get("Authorization") or ""))
                status, response = answer(self.path, body, self.headers.get("Authorization") or "")
                data = json.dumps(response).encode()
                self.send_response(status)
                self.send_header("X-Elastic-Product", product)
                self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=8")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815  # the names that the base class looks for

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                pass  # a client that does not trust the certificate hangs up

        self.server = Server(("127.0.0.1", 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.file, certificate.key_file)
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.place = f"127.0.0.1:{self.server.server_port}"
        self.url = f"{'https' if certificate else 'http'}://{self.place}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Nobody answers at its address any more; twice does no harm."""
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


# ---------------------------------------------------------------- certificates


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, in files. Made anew for each test, so that no key lies in the project."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    file: Path
    key_file: Path


def authority(folder: Path, name: str) -> Certificate:
    """One that signs others, and itself."""
    return _signed(folder, name, None, x509.BasicConstraints(ca=True, path_length=None))


def certificate_of(signer: Certificate, host: str) -> Certificate:
    """A server's, for the host: a name or an address."""
    return _signed(signer.file.parent, host, signer, _host(host))


def _host(host: str) -> x509.SubjectAlternativeName:
    numbers = host.replace(".", "").isdigit()
    return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host)) if numbers else x509.DNSName(host)])


def _signed(folder: Path, text: str, signer: Certificate | None, extension: x509.ExtensionType) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
    now = datetime.datetime.now(datetime.UTC)
    by = signer or Certificate(name, key, folder, folder)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
    certificate = (
        x509.CertificateBuilder(by.name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(extension, critical=signer is None)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(identifier, critical=False)
        .sign(by.key, hashes.SHA256())
    )
    file, key_file = folder / f"{text}.pem", folder / f"{text}.key"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    return Certificate(name, key, file, key_file)
