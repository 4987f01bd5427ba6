"""The sessions that listen to channels, and how messages are sent to them.

The commands are in server/commands/pubsub_commands.py.
"""

from collections.abc import Iterable
from functools import partial

from holdfast.glob import Matcher, compile_glob
from holdfast.resp import Push, Reply, Several
from holdfast.server.sessions.out_of_band import Published, Shared
from holdfast.server.sessions.session import NORMAL, PUBSUB, SUBSCRIBED, Session
from holdfast.server.sessions.session_host import SessionHost


class Topic:
    """A channel or pattern, and the sessions that listen to it."""

    __slots__ = ("listeners", "matches")

    def __init__(self, matches: Matcher | None) -> None:
        self.listeners: dict[Session, None] = {}  # in the order in which they came
        self.matches = matches


class Topics:
    """One kind of subscription: channels, patterns, or shard channels. The three are
    independent."""

    def __init__(self, prefix: bytes) -> None:
        self.subscribed = prefix + b"subscribe"
        self.unsubscribed = prefix + b"unsubscribe"
        self.message = prefix + b"message"
        self._are_patterns = prefix == b"p"
        self.topics: dict[bytes, Topic] = {}
        self._names: dict[Session, dict[bytes, None]] = {}

    def __len__(self) -> int:
        return len(self.topics)

    def count_of(self, session: Session) -> int:
        return len(self._names.get(session, ()))

    def names_of(self, session: Session) -> list[bytes]:
        return list(self._names.get(session, ()))

    def listeners(self, name: bytes) -> int:
        topic = self.topics.get(name)
        return 0 if topic is None else len(topic.listeners)

    def add(self, session: Session, name: bytes) -> None:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(compile_glob(name) if self._are_patterns else None)
        topic.listeners[session] = None
        self._names.setdefault(session, {})[name] = None

    def remove(self, session: Session, name: bytes) -> None:
        names = self._names.get(session)
        if names is None or name not in names:
            return
        del names[name]
        if not names:
            del self._names[session]
        listeners = self.topics[name].listeners
        del listeners[session]
        if not listeners:
            del self.topics[name]


class PubSub:
    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self.channels, self.patterns, self.shards = Topics(b""), Topics(b"p"), Topics(b"s")
        self.topic: Topic | None = None  # of messages that were published and not sent yet
        self._messages: list[Reply] = []

    # -- subscribing --------------------------------------------------------------------------

    def subscribe(self, session: Session, topics: Topics, names: Iterable[bytes]) -> Several:
        self.flush()
        answers = Several()
        for name in names:
            topics.add(session, name)
            answers.append(Push([topics.subscribed, name, self._count(session, topics)]))
        self._update(session)
        return answers

    def unsubscribe(self, session: Session, topics: Topics, names: Iterable[bytes]) -> Several:
        """End the subscriptions to these names, or all of them when no name is given."""
        self.flush()
        answers = Several()
        for name in names or topics.names_of(session):
            topics.remove(session, name)
            answers.append(Push([topics.unsubscribed, name, self._count(session, topics)]))
        if not answers:
            answers.append(Push([topics.unsubscribed, None, self._count(session, topics)]))
        self._update(session)
        return answers

    def forget(self, session: Session) -> None:
        """Remove a session that has ended or was reset. The cost grows with its subscriptions."""
        if session.modes & SUBSCRIBED:
            self.flush()
            for topics in (self.channels, self.patterns, self.shards):
                for name in topics.names_of(session):
                    topics.remove(session, name)
            self._update(session)

    def _count(self, session: Session, topics: Topics) -> int:
        """The number of subscriptions in a confirmation: channels and patterns together, shard
        channels separately."""
        if topics is self.shards:
            return topics.count_of(session)
        return self.channels.count_of(session) + self.patterns.count_of(session)

    def _update(self, session: Session) -> None:
        listens = any(t.count_of(session) for t in (self.channels, self.patterns, self.shards))
        if listens != bool(session.modes & SUBSCRIBED):
            session.modes ^= SUBSCRIBED
            session.kind = PUBSUB if listens else NORMAL
            session.limits_changed()

    # -- publishing ---------------------------------------------------------------------------

    def publish(self, channel: bytes, message: bytes) -> int:
        """Publish a message; return the number of receivers. A session with two subscriptions that
        match counts twice."""
        count = self._publish(self.channels, channel, message)
        patterns = self.patterns
        if patterns.topics:
            for pattern, topic in list(patterns.topics.items()):
                if topic.matches is not None and topic.matches(channel):
                    count += self._tell(topic, [patterns.message, pattern, channel, message])
        return count

    def publish_to_shard(self, channel: bytes, message: bytes) -> int:
        return self._publish(self.shards, channel, message)

    def _publish(self, topics: Topics, channel: bytes, message: bytes) -> int:
        topic = topics.topics.get(channel)
        return 0 if topic is None else self._tell(topic, [topics.message, channel, message])

    def _tell(self, topic: Topic, message: list[Reply]) -> int:
        """Publish a message on a topic; return the number of its listeners. Successive messages on
        one topic are sent together by `flush`: mostly a turn has many of them, and to send takes
        longer than to encode a message."""
        listeners = topic.listeners
        host = self._host
        if host.keyspace.later is not None or host.running in listeners:
            # From a script, which may still fail; or to the publisher itself, before its reply.
            self.flush()
            self.send(Shared(Push(message), mark=Published), *listeners)
        else:
            if self.topic is not topic:
                self.flush()
                self.topic = topic
                host.outgoing.schedule()
            self._messages.append(Push(message))
        return len(listeners)

    def flush(self) -> None:
        """Send the messages that were published. This must be called before a session that listens
        gets other output, before a session begins or ends to listen, and at the end of a turn."""
        topic, self.topic = self.topic, None
        if topic is not None:
            messages, self._messages = self._messages, []
            # A copy, because a session that does not read may be closed during this loop.
            Shared(*messages, mark=Published).send_to(list(topic.listeners))

    def send(self, shared: Shared, *sessions: Session) -> None:
        """Send out-of-band output, after all earlier messages. Output of a script, which may still
        fail, is sent when the script has succeeded."""
        later = self._host.keyspace.later if shared.mark is Published else None
        if later is not None and sessions:
            later.append(partial(self._send_in_order, shared, sessions))
        else:
            self._send_in_order(shared, sessions)

    def _send_in_order(self, shared: Shared, sessions: tuple[Session, ...]) -> None:
        if sessions:
            self.flush()
            shared.send_to(sessions)

    def drop(self) -> None:
        """Drop messages of a script that failed."""
        self.topic = None
        self._messages = []
