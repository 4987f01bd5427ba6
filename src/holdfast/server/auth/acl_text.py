"""Users and their rules as text, for ACL LIST, ACL GETUSER and ACL files. acl.py reads such
text."""

from holdfast.commands.table import CATEGORIES
from holdfast.server.auth.acl import Selector, User, all_commands
from holdfast.server.auth.acl_touches import READ, WRITE


def flags_of(user: User) -> list[bytes]:
    flags = [b"on" if user.enabled else b"off"]
    if user.nopass:
        flags.append(b"nopass")
    if user.sanitizing:
        flags.append(user.sanitizing)
    return flags


def line_of(user: User) -> bytes:
    """The user as a line of an ACL file."""
    root, *others = user.selectors
    return b" ".join(
        [
            *(b"user", user.name, *flags_of(user)),
            *(b"#" + password for password in user.passwords),
            _selector(root),
            *(b"(" + _selector(selector) + b")" for selector in others),
        ]
    )


def _selector(selector: Selector) -> bytes:
    channels = channels_of(selector)
    if not selector.all_channels:
        channels = b"resetchannels " + channels
    databases = b"" if selector.databases is None else databases_of(selector) or b"resetdbs"
    parts = (keys_of(selector), channels.rstrip(b" "), databases, commands_of(selector))
    return b" ".join(part for part in parts if part)


def keys_of(selector: Selector) -> bytes:
    if selector.all_keys:
        return b"~*"
    prefixes = {0: b"", READ: b"%R~", WRITE: b"%W~", READ | WRITE: b"~"}
    return b" ".join(prefixes[permitted] + name for name, permitted in selector.keys.items())


def channels_of(selector: Selector) -> bytes:
    if selector.all_channels:
        return b"&*"
    return b" ".join(b"&" + name for name in selector.channels)


def databases_of(selector: Selector) -> bytes:
    if selector.databases is None:
        return b"alldbs"
    numbers = b",".join(b"%d" % index for index in sorted(selector.databases))
    return b"db=" + numbers if numbers else b""


def commands_of(selector: Selector) -> bytes:
    """Rules that allow the same commands as the selector: categories, as long as each brings the
    set of commands closer, then single commands. (Redis 7.0 does the same: it does not remember the
    rules that the user gave.)"""
    wanted = selector.commands
    sign, unsign = ("-", "+") if selector.future else ("+", "-")
    made = Selector(all_channels=False)
    rules = [f"{unsign}@all"]
    made.apply(rules[0].encode())
    # The commands that are still to be added (or removed, if the rules began with all commands).
    names = {command.name for command in all_commands()}
    open_ = names - wanted if selector.future else wanted & names
    categories = {
        category: {c.name for c in all_commands() if category in c.categories}
        for category in CATEGORIES
    }
    while categories:
        fits = [
            (len(of - open_), -len(of & open_), place, category)
            for place, (category, of) in enumerate(categories.items())
            if len(of & open_) > len(of - open_)
        ]
        if not fits:
            break
        category = min(fits)[3]
        open_ = open_ - categories.pop(category)
        rules.append(f"{sign}@{category}")
        made.apply(rules[-1].encode())
    for command in all_commands():
        name = command.name
        if (name in wanted) != (name in made.commands):
            rules.append(("+" if name in wanted else "-") + name)
            made.apply(rules[-1].encode())
        if name not in wanted:
            first_args = selector.first_args.get(name, ())
            rules += [f"+{name}|{argument.decode('latin-1')}" for argument in first_args]
    return " ".join(rules).encode("latin-1")
