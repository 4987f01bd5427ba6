"""Generated files are what their generators make of their tables."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_typed_methods_are_up_to_date() -> None:
    argv = [sys.executable, str(ROOT / "scripts/generate_client.py"), "--check"]
    assert subprocess.run(argv).returncode == 0, "run scripts/generate_client.py"


def test_every_method_exists_asynchronous_and_blocking() -> None:
    from holdfast.client.commands import Commands
    from holdfast.client.sync_commands import SyncCommands

    public = {name for name in vars(Commands) if not name.startswith("_")}
    assert public == {name for name in vars(SyncCommands) if not name.startswith("_")}
    assert len(public) > 120


def test_the_blocking_client_has_all_that_the_other_has() -> None:
    from holdfast.client import pubsub, sync, transaction
    from holdfast.client.client import Client

    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    inside = {"run_many", "sender", "warn_if_unclosed", "slots"}
    assert public(Client) - inside <= public(sync.SyncClient)
    assert public(transaction.Transaction) - inside <= public(sync.SyncTransaction)
    told = {"on_message", "on_gap", "on_dropped", "on_closed"}
    assert public(pubsub.PubSub) - told <= public(sync.SyncPubSub)
