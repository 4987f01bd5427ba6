"""`holdfast top` with real servers: figures, permissions, restarts, silence, a terminal."""

import asyncio
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.client import Client
from holdfast.figures.view import View
from holdfast.figures.watch import NO_SEARCH, ServerWatch
from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.server.config.test_tls import Certificates, serve

Capture = pytest.CaptureFixture[str]
Start = Callable[..., HoldfastServer]
ONCE = ("--once", "--interval", "0.1")


class Clock:
    """Moves on by a second at each look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def looks(work: Callable[[Client], Any], number: int = 2, url: str = "memory://") -> list[View]:
    """Views of a server, with `work` done before each."""

    async def run() -> list[View]:
        clock = Clock()
        async with holdfast.connect(url) as client:
            watch = ServerWatch(client, "here", clock, lambda: 1000.0)
            views = []
            for _ in range(number):
                await work(client)
                clock.now_s += 1.0
                views.append(await watch.look())
            return views

    return asyncio.run(run())


# -- figures --------------------------------------------------------------------------------------


async def some_work(client: Client) -> None:
    for n in range(10):
        await client.set(f"k{n}", "v")
    await client.rpush("jobs", "a", "b")
    await client.exec("XADD", b"\xff", "*", "f", "v")


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_figures(kind: str, request: pytest.FixtureRequest) -> None:
    url = "memory://"
    if kind == "redis":
        oracle: RedisServer = request.getfixturevalue("oracle")
        with RawClient.connect(oracle.port) as raw:
            raw.command("FLUSHALL")
        url = f"redis://127.0.0.1:{oracle.port}"
    first, second = looks(some_work, url=url)
    assert first.ops_per_s is None
    assert second.ops_per_s == 12.0, "without our own commands"
    assert (second.keys, second.blocked_clients) == (12, 0)
    assert second.clients
    calls = {each.name: each.calls_per_s for each in second.commands}
    assert calls == {"set": 10.0, "rpush": 1.0, "xadd": 1.0}
    assert second.p50_us is not None
    assert {(each.name, each.type, each.growth_per_s) for each in second.queues} == {
        ("jobs", "list", 2.0),
        ("\\xff", "stream", 1.0),
    }
    assert (second.scanned_share, second.missing, second.notices) == (1.0, (), ())


def test_keys_that_cannot_grow_are_not_scanned() -> None:
    async def strings(client: Client) -> None:
        await client.set("k", "v")

    async def scans(client: Client) -> None:
        await strings(client)
        text: str = await client.exec("INFO", "commandstats", into=str)
        assert "cmdstat_scan" not in text
        assert "cmdstat_keys" not in text

    assert looks(scans, 3)[-1].scanned_share == 1.0


def test_a_look_at_many_keys_is_bounded() -> None:
    """SCAN with a count, ten times at most, and no command that takes longer with more keys."""
    seen: list[str] = []

    async def fill(client: Client) -> None:
        if not seen:
            for start in range(0, 20_000, 1000):
                await client.exec("MSET", *(w for n in range(start, start + 1000) for w in (n, n)))
            await client.rpush("jobs", "a")
        seen.append(await client.exec("INFO", "commandstats", into=str))

    *_, last = looks(fill, 3)
    assert last.scanned_share is not None
    assert last.scanned_share < 1.0, "more keys than two looks may scan"
    calls = {name: int(n) for name, n in re.findall(r"cmdstat_(\S+?):calls=(\d+)", seen[-1])}
    assert 2 <= calls["scan"] <= 20
    assert calls.keys() <= {
        *("mset", "rpush", "hello", "client|setinfo", "client|no-touch", "ping", "info"),
        *("latency|histogram", "slowlog|get", "dbsize", "scan", "llen", "zcard", "xlen"),
    }


def test_an_active_active_server_with_maxmemory_is_not_searched(start_server: Start) -> None:
    """There, LLEN loads the whole list from the file."""
    server = start_server("--active-active", "--node-id", "1", "--maxmemory", "1gb", db=":memory:")

    async def nothing(client: Client) -> None:
        pass

    url = f"redis://127.0.0.1:{server.port}"
    view = looks(nothing, 1, url)[0]
    assert NO_SEARCH in view.notices
    assert view.scanned_share is None


# -- the command line -----------------------------------------------------------------------------


def test_once(server: HoldfastServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["top", f"redis://127.0.0.1:{server.port}", *ONCE]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"holdfast {holdfast.__version__}  127.0.0.1:{server.port}  up ")
    assert re.search(r"^fold backlog +\d+$", out, re.MULTILINE)
    monkeypatch.setenv("HOLDFAST_PORT", str(server.port))
    assert main(["top", "--interval", "0.1"]) == 0  # no terminal: one sample
    assert capsys.readouterr().out.count("ops/s") == 1


def test_redis_shows_what_it_knows(oracle: RedisServer, capsys: Capture) -> None:
    assert main(["top", f"redis://127.0.0.1:{oracle.port}", *ONCE]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^redis \d", out)
    assert re.search("^fold backlog +–$", out, re.MULTILINE)
    assert re.search("^ops/s +0$", out, re.MULTILINE)


def test_json(server: HoldfastServer, capsys: Capture) -> None:
    url = f"redis://127.0.0.1:{server.port}"
    assert main(["top", url, "--json", "--count", "2", "--interval", "0.1"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first.keys() == second.keys()
    assert first["trouble"] is None
    assert second["interval_s"] >= 0.1


def test_text_and_json_need_no_rich(server: HoldfastServer) -> None:
    code = "import sys; sys.modules['rich'] = None; from holdfast.cli.main import main\n"
    argv = ["top", f"redis://127.0.0.1:{server.port}", *ONCE]
    code += f"sys.exit(main({argv}) or main({[*argv, '--json']}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("ops/s  " in done.stdout, '"ops_per_s":' in done.stdout) == (True, True)


def test_a_screen_without_rich_says_what_to_install(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr("holdfast.cli.top_command.is_smart_terminal", lambda stream: True)
    assert main(["top", "redis://127.0.0.1:1"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "pip install rich" in err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["memory://"], "a URL begins with one of redis://, rediss://, unix://"),
        (["--interval", "0"], "--interval is a number of seconds from 0.1 on"),
        (["--interval", "nan"], "--interval is a number of seconds from 0.1 on"),
        (["--count", "0"], "--count is a number from 1 on"),
        (["--once", "--count", "2"], "--once and --count contradict each other"),
    ],
)
def test_mistakes(argv: list[str], sentence: str, capsys: Capture) -> None:
    assert main(["top", *argv]) == 2
    assert capsys.readouterr() == ("", f"holdfast: {sentence}\n")


def test_nothing_listens(capsys: Capture) -> None:
    assert main(["top", "redis://127.0.0.1:1", "--once"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "cannot connect to 127.0.0.1:1" in err


def test_a_reader_that_leaves(server: HoldfastServer) -> None:
    top = f"{sys.executable} -m holdfast top redis://127.0.0.1:{server.port} --json --interval 0.1"
    done = subprocess.run(["sh", "-c", f"{top} | head -n 1"], capture_output=True, text=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)["trouble"] is None


def test_an_output_that_knows_no_dashes(oracle: RedisServer) -> None:
    top = [sys.executable, "-m", "holdfast", "top", f"redis://127.0.0.1:{oracle.port}", *ONCE]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(top, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^fold backlog +\?$", done.stdout, re.MULTILINE)


# -- users, TLS, unix sockets ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastServer]:
    with HoldfastServer(tmp_path_factory.mktemp("guarded"), db=":memory:") as server:
        guard(server.client())
        yield server


def guard(client: RawClient) -> None:
    for rules in (
        "reader on >pw +@read +@connection ~jobs:*",
        "informed on >pw +info",
        "nothing on >pw",
    ):
        assert client.command("ACL", "SETUSER", *rules.split()) == b"+OK\r\n"
    for key in ("jobs:1", "secret:1"):
        client.command("RPUSH", key, "a")
    client.command("ACL", "SETUSER", "default", "resetpass", ">x")


def test_users_see_what_they_may(guarded: HoldfastServer, capsys: Capture) -> None:
    def seen(user: str) -> Any:
        url = f"redis://{user}:pw@127.0.0.1:{guarded.port}"
        assert main(["top", url, "--json", "--count", "1", "--interval", "0.1"]) == 0
        return json.loads(capsys.readouterr().out)

    def missing(view: Any) -> set[str]:
        assert {each["reason"] for each in view["missing"]} <= {"not permitted"}
        return {each["command"] for each in view["missing"]}

    reader, informed, nothing = map(seen, ("reader", "informed", "nothing"))
    assert missing(reader) == {"INFO", "LATENCY HISTOGRAM", "SLOWLOG GET"}
    assert (reader["keys"], reader["scanned_share"], reader["ops_per_s"]) == (2, 1.0, None)
    assert missing(informed) == {
        *("PING", "LATENCY HISTOGRAM", "SLOWLOG GET", "DBSIZE", "SCAN"),
    }
    assert informed["ops_per_s"] is not None
    assert informed["commands"] == [], "our own refused calls are not shown"
    assert {"PING", "INFO", "SCAN"} <= missing(nothing)
    log = guarded.client()
    log.command("AUTH", "x")
    refused = log.command("ACL", "LOG", 100).count(b"secret:1")
    assert refused == 1, "a key that is refused is asked for once"


def test_a_password_is_missing(guarded: HoldfastServer, capsys: Capture) -> None:
    assert main(["top", f"redis://127.0.0.1:{guarded.port}", "--once"]) == 1
    said = "holdfast: the server wants a password: redis://user:password@host\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_tls_and_unix_sockets(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Certificates(tmp_path)
    socket = tmp_path / "s.sock"
    options = (*certificates.options(tls_auth_clients="no"), "--unixsocket", str(socket))
    with serve(tmp_path / "server", *options) as server:
        tls_port = server.args[server.args.index("--tls-port") + 1]
        monkeypatch.setenv("SSL_CERT_FILE", certificates.path("ca.crt"))
        for url in (f"rediss://localhost:{tls_port}", f"unix://{socket}"):
            assert main(["top", url, *ONCE]) == 0, capsys.readouterr().err
            assert "ops/s         0\n" in capsys.readouterr().out


# -- servers that come and go ---------------------------------------------------------------------


def test_a_stream_survives_a_restart(tmp_path: Path) -> None:
    """The counters of the new process are lower: no negative rates."""
    socket = tmp_path / "s.sock"
    top = [sys.executable, "-m", "holdfast", "top", f"unix://{socket}", "--json"]
    with HoldfastServer(tmp_path / "s", "--unixsocket", str(socket), db=":memory:") as server:
        client = server.client()
        for n in range(100):
            client.command("SET", n, n)
        with subprocess.Popen([*top, "--interval", "0.1"], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            views = (json.loads(line) for line in process.stdout)
            try:
                assert next(views)["trouble"] is None
                server.terminate()
                assert next(view for view in views if view["trouble"])["ops_per_s"] is None
                server.start()
                back = next(view for view in views if not view["trouble"])
                assert back["notices"] == ["the server has restarted: rates begin anew"]
                assert back["ops_per_s"] is None
                after = next(views)
                assert (after["ops_per_s"], after["notices"]) == (0.0, [])
            finally:
                process.send_signal(signal.SIGINT)
        assert process.returncode == 130


def test_the_last_sample_of_a_server_that_is_gone_is_an_object(tmp_path: Path) -> None:
    with HoldfastServer(tmp_path / "s", db=":memory:") as server:
        url = f"redis://127.0.0.1:{server.port}"
        top = [sys.executable, "-m", "holdfast", "top", url, "--json", "--interval", "0.1"]
        with subprocess.Popen(
            [*top, "--count", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            first = json.loads(process.stdout.readline())
            server.kill()
            views = [first, *map(json.loads, process.stdout)]
            assert process.stderr.read().count("\n") == 1
        assert process.returncode == 1
    assert [view["trouble"] is None for view in views] == [True, False, False]


def test_a_screen_of_one_sample_has_rates(server: HoldfastServer) -> None:
    argv = (sys.executable, "-m", "holdfast", "top", f"redis://127.0.0.1:{server.port}")
    terminal = Terminal(*argv, "--interval", "0.1", "--count", "1", columns=80, lines=30)
    try:
        wait_until(
            lambda: "PING" in terminal.read().upper() or terminal.process.poll() == 0, "it draws"
        )
        assert terminal.process.wait(20) == 0
        wait_until(lambda: re.search(r"ops/s +\d", terminal.read()) is not None, "it shows rates")
        _, _, after = terminal.drawn.rpartition(NORMAL_SCREEN)
        assert re.search(r"^ops/s +\d", after, re.MULTILINE), "the last sample stays as text"
    finally:
        terminal.close()


NORMAL_SCREEN = "\x1b[?1049l"  # the terminal leaves the screen of a program


class Terminal:
    """A program on a terminal of a given size. `shows` reads what it draws."""

    def __init__(self, *argv: str, columns: int, lines: int) -> None:
        self.fd, self._inner = pty.openpty()
        self.resize(columns, lines)
        self.usual = termios.tcgetattr(self._inner)
        self._drawn = ""
        self.process = subprocess.Popen(
            argv,
            stdin=self._inner,
            stdout=self._inner,
            stderr=self._inner,
            env=os.environ | {"TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.set_blocking(self.fd, False)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self) -> str:
        """All that was drawn since the last call of `shows`, without escape sequences."""
        try:
            self._drawn += os.read(self.fd, 1 << 16).decode("utf-8", "replace")
        except BlockingIOError:
            pass
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._drawn)

    @property
    def drawn(self) -> str:
        self.read()
        return self._drawn

    def shows(self, text: str) -> None:
        """Wait until it draws this from now on."""
        self._drawn = ""
        wait_until(lambda: text in self.read(), f"the screen shows {text!r}")

    def last_frame(self) -> str:
        """The last whole screen; each begins at the top left corner."""
        self.read()
        return self._drawn.split("\x1b[H")[-2:][0]

    @property
    def is_as_before(self) -> bool:
        return termios.tcgetattr(self._inner) == self.usual

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._inner)
        os.close(self.fd)


@pytest.fixture
def terminal(server: HoldfastServer) -> Iterator[Terminal]:
    url = f"redis://127.0.0.1:{server.port}"
    argv = (sys.executable, "-m", "holdfast", "top", url, "--interval", "0.1")
    terminal = Terminal(*argv, columns=80, lines=30)
    try:
        yield terminal
    finally:
        terminal.close()


def test_the_screen_of_a_server_that_falls_silent(
    terminal: Terminal, server: HoldfastServer
) -> None:
    terminal.shows("commands, by time")
    assert not terminal.is_as_before, "keys are not echoed"
    os.write(terminal.fd, b"s")
    terminal.shows("commands, by calls")
    terminal.resize(20, 30)
    terminal.process.send_signal(signal.SIGWINCH)
    terminal.shows("\nlatency p99")
    server.suspend()
    try:
        terminal.shows("no answer for ")
    finally:
        server.resume()
    wait_until(lambda: "no answer" not in terminal.last_frame(), "the screen recovers")
    os.write(terminal.fd, b"q")
    assert terminal.process.wait(20) == 0
    assert terminal.is_as_before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_gives_the_terminal_back(
    terminal: Terminal, number: signal.Signals, code: int
) -> None:
    terminal.shows("ops/s")
    terminal.process.send_signal(number)
    assert terminal.process.wait(20) == code
    assert terminal.is_as_before
