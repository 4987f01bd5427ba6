"""Replicas that reach their primary through TLS (`tls-replication`)."""

import shutil
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, RedisServer, free_port, wait_until
from tests.harness.processes import ServerProcess
from tests.server.config.test_tls import Certificates
from tests.server.primary.following import is_up, wait_for_replica

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.source_only,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def follow(replica: ServerProcess, port: int) -> RawClient:
    client = replica.client()
    assert client.command("REPLICAOF", "127.0.0.1", port) == b"+OK\r\n"
    return client


@pytest.mark.parametrize(
    ("primary_kind", "replica_kind"),
    [
        (HoldfastServer, HoldfastServer),
        (RedisServer, HoldfastServer),
        (HoldfastServer, RedisServer),
    ],
)
def test_a_replica_follows_through_tls(
    primary_kind: type[ServerProcess],
    replica_kind: type[ServerProcess],
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    port = free_port()
    options = certificates.options()
    replica_options = [*options, "--tls-replication", "yes"]
    if primary_kind is HoldfastServer:  # with port 0, it would have the port of TLS only
        options += ["--port", str(free_port())]
    with (
        primary_kind(tmp_path / "primary", *options, "--tls-port", str(port)) as primary,
        replica_kind(tmp_path / "replica", *replica_options) as replica,
    ):
        client = primary.client()
        client.command("SET", "before", "x" * 1_000_000)
        copy = follow(replica, port)
        wait_until(lambda: is_up(copy), "it follows")
        client.command("SET", "after", 1)
        wait_for_replica(client)
        assert copy.command("STRLEN", "before") == b":1000000\r\n"
        assert copy.command("GET", "after") == b"$1\r\n1\r\n"


def test_a_primary_with_a_certificate_of_another_authority_is_not_followed(
    certificates: Certificates, tmp_path: Path
) -> None:
    port = free_port()
    stranger = certificates.options(
        tls_cert_file=certificates.path("stranger.crt"),
        tls_key_file=certificates.path("stranger.key"),
    )
    options = [*certificates.options(), "--tls-replication", "yes"]
    with (
        HoldfastServer(tmp_path / "primary", *stranger, "--tls-port", str(port)),
        HoldfastServer(tmp_path / "replica", *options) as replica,
    ):
        replica.client().command("SET", "own", 1)
        client = follow(replica, port)
        wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in replica.stderr, "it says why")
        assert not is_up(client)
        assert client.command("GET", "own") == b"$1\r\n1\r\n"
