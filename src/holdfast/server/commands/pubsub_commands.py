"""Publish and subscribe. server/features/channels.py keeps the subscriptions."""

from holdfast.commands.table import command, container, help_reply, many, one
from holdfast.errors import CommandError
from holdfast.glob import compile_glob
from holdfast.resp import Reply
from holdfast.server.core.engine import engine_of
from holdfast.server.features.channels import Topics
from holdfast.server.sessions.session import Session

LISTENING = "pubsub noscript loading stale"
PUBLISHING = "pubsub loading stale fast may_replicate"
ASKING = "pubsub loading stale"


@command("subscribe", -2, LISTENING, group="pubsub", since="2.0.0")
def subscribe(session: Session, argv: list[bytes]) -> Reply:
    """Listen to channels.

    SUBSCRIBE channel [channel ...]
    """
    pubsub = engine_of(session).pubsub
    return pubsub.subscribe(session, pubsub.channels, argv[1:])


@command("unsubscribe", -1, LISTENING, group="pubsub", since="2.0.0")
def unsubscribe(session: Session, argv: list[bytes]) -> Reply:
    """Stop listening to channels, or to all of them if none is named.

    UNSUBSCRIBE [channel [channel ...]]
    """
    pubsub = engine_of(session).pubsub
    return pubsub.unsubscribe(session, pubsub.channels, argv[1:])


@command("psubscribe", -2, LISTENING, group="pubsub", since="2.0.0")
def psubscribe(session: Session, argv: list[bytes]) -> Reply:
    """Listen to all channels whose names match a pattern.

    PSUBSCRIBE pattern [pattern ...]
    """
    pubsub = engine_of(session).pubsub
    return pubsub.subscribe(session, pubsub.patterns, argv[1:])


@command("punsubscribe", -1, LISTENING, group="pubsub", since="2.0.0")
def punsubscribe(session: Session, argv: list[bytes]) -> Reply:
    """Stop listening to patterns, or to all of them if none is named.

    PUNSUBSCRIBE [pattern [pattern ...]]
    """
    pubsub = engine_of(session).pubsub
    return pubsub.unsubscribe(session, pubsub.patterns, argv[1:])


@command("ssubscribe", -2, LISTENING, many("not_key"), group="pubsub", since="7.0.0")
def ssubscribe(session: Session, argv: list[bytes]) -> Reply:
    """Listen to shard channels, which are separate from other channels.

    SSUBSCRIBE shardchannel [shardchannel ...]
    """
    pubsub = engine_of(session).pubsub
    return pubsub.subscribe(session, pubsub.shards, argv[1:])


@command("sunsubscribe", -1, LISTENING, many("not_key"), group="pubsub", since="7.0.0")
def sunsubscribe(session: Session, argv: list[bytes]) -> Reply:
    """Stop listening to shard channels, or to all of them if none is named.

    SUNSUBSCRIBE [shardchannel [shardchannel ...]]
    """
    pubsub = engine_of(session).pubsub
    return pubsub.unsubscribe(session, pubsub.shards, argv[1:])


@command("publish", 3, PUBLISHING, group="pubsub", since="2.0.0")
def publish(session: Session, argv: list[bytes]) -> Reply:
    """Send a message to all listeners; it leaves when all earlier writes are on disk.

    PUBLISH channel message
    """
    return engine_of(session).pubsub.publish(argv[1], argv[2])


@command("spublish", 3, PUBLISHING, one("not_key"), group="pubsub", since="7.0.0")
def spublish(session: Session, argv: list[bytes]) -> Reply:
    """Send a message to all listeners of a shard channel.

    SPUBLISH shardchannel message
    """
    return engine_of(session).pubsub.publish_to_shard(argv[1], argv[2])


# -- PUBSUB ---------------------------------------------------------------------------------------

container("pubsub", -2, "", "Show channels and their listeners.", group="pubsub", since="2.8.0")


@command("pubsub|channels", -2, ASKING, group="pubsub", since="2.8.0")
def channels(session: Session, argv: list[bytes]) -> Reply:
    """The channels that have listeners.

    PUBSUB CHANNELS [pattern]
    """
    return _names(engine_of(session).pubsub.channels, argv)


@command("pubsub|shardchannels", -2, ASKING, group="pubsub", since="7.0.0")
def shardchannels(session: Session, argv: list[bytes]) -> Reply:
    """The shard channels that have listeners.

    PUBSUB SHARDCHANNELS [pattern]
    """
    return _names(engine_of(session).pubsub.shards, argv)


def _names(topics: Topics, argv: list[bytes]) -> Reply:
    if len(argv) > 3:
        raise CommandError(
            b"ERR unknown subcommand or wrong number of arguments for '%s'. Try PUBSUB HELP."
            % argv[1][:128]
        )
    if len(argv) == 2:
        return tuple(topics.topics)
    return tuple(filter(compile_glob(argv[2]), topics.topics))


@command("pubsub|numsub", -2, ASKING, group="pubsub", since="2.8.0")
def numsub(session: Session, argv: list[bytes]) -> Reply:
    """How many clients listen to each of these channels, not counting patterns.

    PUBSUB NUMSUB [channel [channel ...]]
    """
    return _counts(engine_of(session).pubsub.channels, argv)


@command("pubsub|shardnumsub", -2, ASKING, group="pubsub", since="7.0.0")
def shardnumsub(session: Session, argv: list[bytes]) -> Reply:
    """How many clients listen to each of these shard channels.

    PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]
    """
    return _counts(engine_of(session).pubsub.shards, argv)


def _counts(topics: Topics, argv: list[bytes]) -> Reply:
    reply: list[Reply] = []
    for name in argv[2:]:
        reply += [name, topics.listeners(name)]
    return reply


@command("pubsub|numpat", 2, ASKING, group="pubsub", since="2.8.0")
def numpat(session: Session, argv: list[bytes]) -> Reply:
    """How many patterns have listeners.

    PUBSUB NUMPAT
    """
    return len(engine_of(session).pubsub.patterns)


@command("pubsub|help", 2, "loading stale", group="pubsub", since="6.2.0")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of PUBSUB.

    PUBSUB HELP
    """
    return help_reply(
        "PUBSUB",
        """
        CHANNELS [<pattern>]
            The channels that have a listener, all or those that match.
        NUMPAT
            How many patterns have listeners.
        NUMSUB [<channel> ...]
            How many clients listen to each of these channels, not counting patterns.
        SHARDCHANNELS [<pattern>]
            The shard channels that have a listener, all or those that match.
        SHARDNUMSUB [<shardchannel> ...]
            How many clients listen to each of these shard channels.
        """,
    )
