"""Steps that tests of a primary and its replica share."""

from tests.harness import RawClient, wait_until
from tests.harness.processes import ServerProcess


def info(client: RawClient) -> dict[str, str]:
    """The section Replication of INFO."""
    lines = client.command("INFO", "replication").decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def is_up(replica: RawClient) -> bool:
    return info(replica).get("master_link_status") == "up"  # a failing disk may be the answer


def follow(primary: ServerProcess, replica: ServerProcess) -> RawClient:
    """A client of the replica, once it has a snapshot."""
    client = replica.client()
    assert client.command("REPLICAOF", "127.0.0.1", primary.port) == b"+OK\r\n"
    wait_until(lambda: is_up(client), "it follows")
    return client


def wait_for_replica(client: RawClient) -> None:
    """Until the replica has all writes of the primary."""
    assert client.command("WAIT", 1, 20_000) == b":1\r\n"
