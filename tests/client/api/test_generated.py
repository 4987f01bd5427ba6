"""Generated files are up to date with their tables."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_typed_methods_are_up_to_date() -> None:
    argv = [sys.executable, str(ROOT / "scripts/generate_client.py"), "--check"]
    assert subprocess.run(argv).returncode == 0, "run scripts/generate_client.py"


def test_every_method_exists_asynchronous_and_blocking() -> None:
    from holdfast.client.api.typed_commands import TypedCommands
    from holdfast.client.api.typed_sync_commands import TypedSyncCommands

    public = {name for name in vars(TypedCommands) if not name.startswith("_")}
    assert public == {name for name in vars(TypedSyncCommands) if not name.startswith("_")}
    assert len(public) > 120


def test_the_blocking_client_has_all_that_the_other_has() -> None:
    from holdfast.client.api import subscriptions as pubsub
    from holdfast.client.api import sync_client as sync
    from holdfast.client.api import transaction
    from holdfast.client.api.client import Client

    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    inside = {"sender", "servers", "warn_if_unclosed", "converters_of", "run_then_wait"}
    assert public(Client) - inside <= public(sync.SyncClient)
    assert public(transaction.Transaction) - inside <= public(sync.SyncTransaction)
    told = {"on_message", "on_gap", "on_dropped", "on_closed"}
    assert public(pubsub.PubSub) - told <= public(sync.SyncPubSub)
