"""Links through TLS, both ways authenticated, with certificates of an authority of one's own."""

import shutil
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, wait_until
from tests.replication.crew import CONVERGENCE_S
from tests.server.config.test_tls import Certificates, serve

pytestmark = [
    pytest.mark.source_only,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
    pytest.mark.timeout(300),
]


def peers(client: RawClient) -> bytes:
    return client.command("ACTIVE", "PEERS")


def test_links_through_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)

    def start(node: int, *options: str) -> HoldfastServer:
        active = ("--active-active", "--node-id", str(node), "--port", "0")
        return serve(tmp_path / str(node), *active, *certificates.options(), *options)

    stranger = certificates.options(
        tls_cert_file=certificates.path("stranger.crt"),
        tls_key_file=certificates.path("stranger.key"),
    )
    with (
        start(1) as one,
        start(2) as two,
        start(3, *stranger) as three,
        certificates.connect(one.port, "client") as first,
        certificates.connect(two.port, "client") as second,
    ):
        for client, other in ((first, two), (first, three), (second, one)):
            url = f"rediss://localhost:{other.port}"
            assert client.command("ACTIVE", "JOIN", url) == b"+OK\r\n"
        for client in (first, second):
            wait_until(lambda c=client: b"following" in peers(c), "a link", CONVERGENCE_S)  # type: ignore[misc]
        wait_until(lambda: b"CERTIFICATE_VERIFY_FAILED" in peers(first), "distrust", CONVERGENCE_S)
        wait_until(lambda: first.command("SET", "k", "v") == b"+OK\r\n", "writes", CONVERGENCE_S)
        wait_until(lambda: second.command("GET", "k") == b"$1\r\nv\r\n", "k", CONVERGENCE_S)
