"""Three real redis-servers as a cluster."""

import socket
import time
from contextlib import ExitStack
from pathlib import Path

from holdfast.client.topology.slots import SLOTS, slot_of
from tests.harness.processes import RedisServer, wait_until


class Nodes:
    def __init__(self, servers: list[RedisServer]) -> None:
        self.servers = servers
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{s.port}" for s in servers)
        self.ids = [self.ask(s, "CLUSTER", "MYID").split(b"\r\n")[1] for s in servers]

    def ask(self, server: RedisServer, *args: str | bytes | int) -> bytes:
        with server.client() as raw:
            return raw.command(*args)

    def is_up(self, server: RedisServer, count: int) -> bool:
        info = self.ask(server, "CLUSTER", "INFO")
        return all(
            line in info
            for line in (
                b"cluster_state:ok",
                b"cluster_slots_assigned:16384",
                b"cluster_known_nodes:%d\r" % count,
            )
        )

    def owner(self, slot: int) -> int:
        return min(slot // (SLOTS // 3), 2)


def start_cluster(stack: ExitStack, folder: Path) -> Nodes:
    servers = [stack.enter_context(start_node(folder / f"node-{n}")) for n in range(3)]
    third = SLOTS // 3
    for n, server in enumerate(servers):
        last = SLOTS - 1 if n == 2 else (n + 1) * third - 1
        with server.client() as raw:
            raw.command("CLUSTER", "ADDSLOTSRANGE", n * third, last)
            raw.command("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
            meet(server, servers[0])
    nodes = Nodes(servers)
    for server in servers:
        wait_until(lambda server=server: nodes.is_up(server, 3), "the cluster is up")  # type: ignore[misc]
    return nodes


def begin_move(nodes: Nodes, name: str) -> tuple[int, int]:
    """Prepare the slot of a name for the move to the next node. Its keys do not move yet."""
    slot = slot_of(name)
    source = nodes.owner(slot)
    target = (source + 1) % 3
    there, here = nodes.servers[target], nodes.servers[source]
    nodes.ask(there, "CLUSTER", "SETSLOT", slot, "IMPORTING", nodes.ids[source])
    nodes.ask(here, "CLUSTER", "SETSLOT", slot, "MIGRATING", nodes.ids[target])
    return slot, target


def end_move(nodes: Nodes, slot: int, target: int) -> None:
    for n in (target, (target + 2) % 3, (target + 1) % 3):
        nodes.ask(nodes.servers[n], "CLUSTER", "SETSLOT", slot, "NODE", nodes.ids[target])


def move(nodes: Nodes, name: str) -> None:
    slot, target = begin_move(nodes, name)
    end_move(nodes, slot, target)


def add_replica(stack: ExitStack, folder: Path, nodes: Nodes, of: int) -> RedisServer:
    replica = stack.enter_context(start_node(folder))
    meet(replica, nodes.servers[of])
    for server in (*nodes.servers, replica):
        wait_until(lambda server=server: nodes.is_up(server, 4), "all four know")  # type: ignore[misc]
    assert nodes.ask(replica, "CLUSTER", "REPLICATE", nodes.ids[of]) == b"+OK\r\n"
    wait_until(
        lambda: b"master_link_status:up" in nodes.ask(replica, "INFO", "replication"),
        "the replica follows",
    )
    return replica


def start_node(folder: Path) -> RedisServer:
    args = ("--cluster-enabled", "yes", "--cluster-node-timeout", "500")
    return RedisServer(folder, *args, "--cluster-port", str(free_port_below(20000)))


def meet(server: RedisServer, other: RedisServer) -> None:
    with server.client() as raw:
        raw.command("CLUSTER", "MEET", "127.0.0.1", other.port, int(other.args[-1]))


def free_port_below(limit: int) -> int:
    """A port for the bus. It must not be one that another server's free_port() is about to get."""
    for port in range(limit - 4000 + time.monotonic_ns() % 2000, limit):
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)):
                try:
                    sock.bind(("127.0.0.1", port))
                except OSError:
                    continue
                return port
    raise AssertionError("no free port")
