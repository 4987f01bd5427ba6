"""The names of a semaphore's keys. No I/O."""

from holdfast.coordination.lua_scripts import LuaScript

PLACEHOLDER = "@@@ACQUISITION_ID@@@"


class Names:
    """All keys of a semaphore. Its name in braces puts them into one slot of a cluster."""

    def __init__(self, namespace: str, name: str, *, hash_tag: bool = True) -> None:
        for what, text in (("name", name), ("namespace", namespace)):
            if not isinstance(text, str):
                raise TypeError(f"the {what} of a semaphore is a str, not {text!r}")
        if not name or (hash_tag and name.startswith("}")):
            raise ValueError(f"no name for a semaphore: {name!r}")
        tag = f"{{{name}}}" if hash_tag else name
        self.keys = {
            "main": f"{namespace}:semaphore_main:{tag}",
            "ttl": f"{namespace}:semaphore_ttl:{tag}",
            "max": f"{namespace}:semaphore_max:{tag}",
            "waiting": f"{namespace}:semaphore_waiting:{tag}",
            "waiting_heartbeat": f"{namespace}:semaphore_waiting_heartbeat:{tag}",
            "token": f"{namespace}:semaphore_token:{tag}",
        }
        lists = f"{namespace}:acquisition_notification:"
        self.pattern = f"{lists}{tag}:{PLACEHOLDER}" if hash_tag else f"{lists}{PLACEHOLDER}"

    def of(self, script: LuaScript) -> dict[str, str]:
        """The keys that a script names in its header."""
        return {name: self.keys[name] for name in script.keys}

    def mailbox(self, box: str) -> str:
        """The list that takes messages for a waiter."""
        return self.pattern.replace(PLACEHOLDER, box)


def match_all(namespace: str, *, hash_tag: bool) -> tuple[str, str, str]:
    """A pattern for the limits of all semaphores, and what to strip from a key to get the name."""
    prefix, suffix = (
        (f"{namespace}:semaphore_max:{{", "}")
        if hash_tag
        else (
            f"{namespace}:semaphore_max:",
            "",
        )
    )
    literal = "".join(f"\\{char}" if char in "*?[]\\^" else char for char in prefix)
    return f"{literal}*{suffix}", prefix, suffix
