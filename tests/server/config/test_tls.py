"""TLS: which clients are accepted and which are not, and one clear sentence for bad files."""

import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, wait_until
from tests.harness.processes import free_port

pytestmark = [
    pytest.mark.source_only,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]


class Certificates:
    """An authority, the certificates it signed, and a stranger's self-signed certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        new = "-nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
        for name in ("ca", "stranger"):
            self._openssl(f"req -x509 {new} -keyout {name}.key -out {name}.crt -subj /CN={name}")
        for name in ("server", "client"):
            self._openssl(f"req {new} -keyout {name}.key -out {name}.csr -subj /CN=localhost")
            self._openssl(
                f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out {name}.crt"
            )
        self._openssl("ec -in server.key -aes128 -passout pass:secret -out locked.key")

    def _openssl(self, command: str) -> None:
        argv = ["openssl", *command.split()]
        subprocess.run(argv, cwd=self.folder, check=True, capture_output=True)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def options(self, **more: str) -> list[str]:
        values = {
            "tls-cert-file": self.path("server.crt"),
            "tls-key-file": self.path("server.key"),
            "tls-ca-cert-file": self.path("ca.crt"),
        } | {name.replace("_", "-"): value for name, value in more.items()}
        return [word for name, value in values.items() for word in (f"--{name}", value)]

    def connect(self, port: int, who: str = "", **settings: object) -> RawClient:
        context = ssl.create_default_context(cafile=self.path("ca.crt"))
        if who:
            context.load_cert_chain(self.path(f"{who}.crt"), self.path(f"{who}.key"))
        for name, value in settings.items():
            setattr(context, name, value)
        sock = socket.create_connection(("127.0.0.1", port), 20)
        try:
            return RawClient(context.wrap_socket(sock, server_hostname="localhost"))
        except BaseException:
            sock.close()
            raise


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def serve(folder: Path, *args: str) -> HoldfastServer:
    for _ in range(5):  # another process may take the port first
        server = HoldfastServer(folder, "--tls-port", str(free_port()), *args, db=":memory:")
        try:
            server.start()
        except AssertionError as error:
            if "cannot listen" not in str(error):
                raise
            continue
        return server
    raise AssertionError("no port is free")


def is_refused(client: RawClient) -> bool:
    """In TLS 1.3 a client learns only afterwards that its certificate will not do."""
    try:
        client.send_command("PING")
        return client.read_until_closed() == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_commands_large_and_small(tmp_path: Path, certificates: Certificates) -> None:
    with (
        serve(tmp_path, *certificates.options(tls_auth_clients="no")) as server,
        certificates.connect(server.port) as client,
    ):
        assert client.command("PING") == b"+PONG\r\n"
        big = b"x" * 3_000_000
        assert client.command("SET", "k", big) == b"+OK\r\n"
        assert client.command("GET", "k") == b"$3000000\r\n" + big + b"\r\n"
        for _ in range(100):
            client.send_command("INCR", "n")
        assert client.read_replies(100)[-1] == b":100\r\n"
        assert b"addr=127.0.0.1:" in client.command("CLIENT", "INFO")
        assert client.command("CONFIG", "SET", "tls-ca-cert-file", "x").startswith(b"-ERR")
        assert client.command("QUIT") == b"+OK\r\n"
        assert client.read_until_closed() == b""
        assert server.terminate() == 0


def test_nothing_is_spoken_in_the_clear(tmp_path: Path, certificates: Certificates) -> None:
    with (
        serve(tmp_path, *certificates.options(tls_auth_clients="no")) as server,
        RawClient.connect(server.port) as plain,
    ):
        assert server.stdout.count("ready on tls:") == 1  # port 0 beside tls-port is no port
        plain.send_command("PING")
        assert b"PONG" not in plain.read_until_closed()
        with certificates.connect(server.port) as client:
            assert client.command("PING") == b"+PONG\r\n"


@pytest.mark.parametrize(
    ("asked", "who", "comes_in"),
    [
        ("yes", "client", True),
        ("yes", "", False),
        ("yes", "stranger", False),
        ("optional", "", True),
        ("optional", "client", True),
        ("optional", "stranger", False),
        ("no", "", True),
    ],
)
def test_client_certificates(
    tmp_path: Path, certificates: Certificates, asked: str, who: str, comes_in: bool
) -> None:
    with (
        serve(tmp_path, *certificates.options(tls_auth_clients=asked)) as server,
        certificates.connect(server.port, who) as client,
    ):
        if comes_in:
            assert client.command("PING") == b"+PONG\r\n"
        else:
            assert is_refused(client)


def test_protocols_and_ciphers(tmp_path: Path, certificates: Certificates) -> None:
    options = certificates.options(
        tls_auth_clients="no",
        tls_protocols="TLSv1.2",
        tls_ciphers="ECDHE-ECDSA-AES256-GCM-SHA384",
        tls_key_file=certificates.path("locked.key"),
        tls_key_file_pass="secret",
    )
    with serve(tmp_path, *options) as server:
        with certificates.connect(server.port) as client:
            assert client.command("PING") == b"+PONG\r\n"
        with pytest.raises(ssl.SSLError):
            certificates.connect(server.port, minimum_version=ssl.TLSVersion.TLSv1_3)


def serial_number(certificates: Certificates, port: int) -> str:
    with certificates.connect(port) as client:
        assert client.command("PING") == b"+PONG\r\n"
        assert isinstance(client._sock, ssl.SSLSocket)
        certificate = client._sock.getpeercert()
        assert certificate is not None
        return str(certificate["serialNumber"])


def test_a_renewed_certificate_is_shown_without_a_restart(
    tmp_path: Path, certificates: Certificates
) -> None:
    for name in ("crt", "key"):
        shutil.copy(certificates.path(f"server.{name}"), tmp_path / f"live.{name}")
    live = {f"tls_{what}_file": str(tmp_path / f"live.{end}") for what, end in FILES.items()}
    with (
        serve(tmp_path, *certificates.options(tls_auth_clients="no", **live)) as server,
        certificates.connect(server.port) as client,
    ):
        first = serial_number(certificates, server.port)
        for name in ("crt", "key"):  # certbot puts the new ones where the old ones were
            shutil.copy(certificates.path(f"client.{name}"), tmp_path / f"live.{name}")
        assert serial_number(certificates, server.port) == first
        assert client.command("CONFIG", "SET", "tls-cert-file", live["tls_cert_file"]) == b"+OK\r\n"
        second = serial_number(certificates, server.port)
        assert second != first
        # One that does not fit its key changes nothing.
        wrong = certificates.path("server.crt")
        assert client.command("CONFIG", "SET", "tls-cert-file", wrong).startswith(
            b"-ERR CONFIG SET"
        )
        assert serial_number(certificates, server.port) == second
        both = ["tls-cert-file", wrong, "tls-key-file", certificates.path("server.key")]
        assert client.command("CONFIG", "SET", *both) == b"+OK\r\n"
        assert serial_number(certificates, server.port) == first
        assert client.command("PING") == b"+PONG\r\n"  # existing connections go on


FILES = {"cert": "crt", "key": "key"}


def test_other_settings_hold_for_new_connections(
    tmp_path: Path, certificates: Certificates
) -> None:
    with (
        serve(tmp_path, *certificates.options(tls_auth_clients="optional")) as server,
        certificates.connect(server.port) as client,
    ):
        assert client.command("CONFIG", "SET", "tls-protocols", "TLSv1.2") == b"+OK\r\n"
        with pytest.raises(ssl.SSLError):
            certificates.connect(server.port, minimum_version=ssl.TLSVersion.TLSv1_3)
        assert client.command("CONFIG", "SET", "tls-protocols", "TLSv1.2 TLSv1.3") == b"+OK\r\n"
        with certificates.connect(server.port, minimum_version=ssl.TLSVersion.TLSv1_3) as newer:
            assert newer.command("PING") == b"+PONG\r\n"
        assert client.command("CONFIG", "SET", "tls-auth-clients", "yes") == b"+OK\r\n"
        with certificates.connect(server.port) as stranger:
            assert is_refused(stranger)
        assert client.command("CONFIG", "SET", "tls-ciphers", "nope").startswith(b"-ERR")
        with certificates.connect(server.port, "client") as known:
            assert known.command("PING") == b"+PONG\r\n"


@pytest.mark.parametrize(("authorities", "can_ask"), [("", False), ("ca.crt", True)])
def test_certificates_can_be_asked_for_later_if_an_authority_is_set(
    tmp_path: Path, certificates: Certificates, authorities: str, can_ask: bool
) -> None:
    file = certificates.path(authorities) if authorities else ""
    options = certificates.options(tls_auth_clients="no", tls_ca_cert_file=file)
    with serve(tmp_path, *options) as server, certificates.connect(server.port) as client:
        answer = client.command("CONFIG", "SET", "tls-auth-clients", "yes")
        assert (answer == b"+OK\r\n") is can_ask
        with certificates.connect(server.port) as stranger:
            assert is_refused(stranger) if can_ask else stranger.command("PING") == b"+PONG\r\n"
        with certificates.connect(server.port, "client") as known:
            assert known.command("PING") == b"+PONG\r\n"


def test_acls_hold_there_too(tmp_path: Path, certificates: Certificates) -> None:
    options = certificates.options(tls_auth_clients="no", requirepass="p")
    with (
        serve(tmp_path, *options) as server,
        certificates.connect(server.port) as client,
    ):
        assert client.command("GET", "k").startswith(b"-NOAUTH")
        assert client.command("AUTH", "p") == b"+OK\r\n"


def test_what_is_denied_is_denied_there_too(tmp_path: Path, certificates: Certificates) -> None:
    with (
        serve(tmp_path, *certificates.options(tls_auth_clients="no")) as server,
        certificates.connect(server.port) as admin,
        certificates.connect(server.port) as user,
    ):
        admin.command("ACL", "SETUSER", "al", "on", ">p", "+@all", "~free", "~queue")
        assert user.command("AUTH", "al", "p") == b"+OK\r\n"
        assert user.command("GET", "secret").startswith(b"-NOPERM")
        assert user.command("SUBSCRIBE", "channel").startswith(b"-NOPERM")
        script = "return redis.call('get', 'secret')"
        assert user.command("EVAL", script, 0).startswith(b"-ERR The user executing the script")
        user.send(b"MULTI\r\nSET free x\r\n")
        assert user.read_replies(2)[1] == b"+QUEUED\r\n"
        admin.command("ACL", "SETUSER", "al", "resetkeys", "~queue")
        assert user.command("EXEC").startswith(b"*1\r\n-NOPERM")
        user.send_command("BLPOP", "queue", 0)
        wait_until(lambda: b"blocked_clients:1" in admin.command("INFO", "clients"), "it waits")
        admin.command("ACL", "SETUSER", "al", "resetkeys")
        assert admin.command("RPUSH", "queue", "x") == b":1\r\n"
        assert user.read_reply().startswith(b"-NOPERM")
        assert admin.command("LLEN", "queue") == b":1\r\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tls_cert_file": ""}, "tls-port needs a certificate"),
        ({"tls_cert_file": "/nowhere"}, "tls-cert-file: cannot read /nowhere: No such file"),
        ({"tls_key_file": "/nowhere"}, "tls-key-file: cannot read /nowhere: No such file"),
        ({"tls_key_file": "ca.key"}, "TLS cannot use the certificate"),
        ({"tls_key_file": "locked.key"}, "TLS cannot use the certificate"),
        ({"tls_ca_cert_file": "/nowhere"}, "tls-ca-cert-file: cannot read /nowhere"),
        ({"tls_ca_cert_file": "ca.key"}, "TLS cannot use the certificates of authorities"),
        ({"tls_ca_cert_file": ""}, "tls-auth-clients yes needs tls-ca-cert-file or"),
        ({"tls_protocols": "SSLv3"}, "tls-protocols knows TLSv1, TLSv1.1, TLSv1.2, TLSv1.3, not"),
        ({"tls_ciphers": "nope"}, "TLS cannot use tls-ciphers nope"),
        ({"tls_ciphersuites": "nope"}, "tls-ciphersuites cannot be chosen here"),
    ],
)
def test_bad_files_are_told_in_one_sentence(
    tmp_path: Path, certificates: Certificates, options: dict[str, str], sentence: str
) -> None:
    named = {
        name: certificates.path(value) if value.endswith(".key") else value
        for name, value in options.items()
    }
    serve = [sys.executable, "-m", "holdfast", "serve", "--db", ":memory:", "--tls-port", "1"]
    done = subprocess.run(
        [*serve, *certificates.options(**named)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert sentence in done.stderr
    assert len(done.stderr.strip().split("\n")) == 1
