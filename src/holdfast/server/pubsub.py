"""Who listens to what, and telling them. The commands are in families/pubsub.py."""

from collections.abc import Iterable

from holdfast.glob import Matcher, compile_glob
from holdfast.resp import Push, Reply, Several
from holdfast.server.session import NORMAL, PUBSUB, SUBSCRIBED, Session
from holdfast.server.unasked import Published, Shared


class Topic:
    """A channel or pattern that somebody listens to."""

    __slots__ = ("listeners", "matches")

    def __init__(self, matches: Matcher | None) -> None:
        self.listeners: dict[Session, None] = {}  # in the order in which they came
        self.matches = matches


class Topics:
    """Channels, patterns, or shard channels: three worlds that know nothing of each other."""

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
    def __init__(self) -> None:
        self.channels, self.patterns, self.shards = Topics(b""), Topics(b"p"), Topics(b"s")
        self.topic: Topic | None = None  # on which messages were published, and not yet told
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
        """From these names, or from all when there are none."""
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
        """It left, or starts anew. Costs as much as it has subscriptions."""
        if session.gate & SUBSCRIBED:
            self.flush()
            for topics in (self.channels, self.patterns, self.shards):
                for name in topics.names_of(session):
                    topics.remove(session, name)
            self._update(session)

    def _count(self, session: Session, topics: Topics) -> int:
        """As confirmations tell it: patterns count with channels, shard channels by themselves."""
        if topics is self.shards:
            return topics.count_of(session)
        return self.channels.count_of(session) + self.patterns.count_of(session)

    def _update(self, session: Session) -> None:
        listens = any(t.count_of(session) for t in (self.channels, self.patterns, self.shards))
        if listens != bool(session.gate & SUBSCRIBED):
            session.gate ^= SUBSCRIBED
            session.kind = PUBSUB if listens else NORMAL
            session.limits_changed()

    # -- publishing ---------------------------------------------------------------------------

    def publish(self, channel: bytes, message: bytes) -> int:
        """How many it was sent to; somebody who has it from two subscriptions counts twice."""
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
        """Messages on one channel in a row are told together, see `flush`: mostly a turn has many
        of them, and to have something told takes longer than to write it."""
        listeners = topic.listeners
        engine = next(iter(listeners)).engine
        if engine.keyspace.later is not None or engine.running in listeners:
            # By a script, which may yet fail; or to oneself, before the reply.
            self.flush()
            Shared(Push(message), mark=Published).send_to(*listeners)
        else:
            if self.topic is not topic:
                self.flush()
                self.topic = topic
                engine.turn.schedule()
            self._messages.append(Push(message))
        return len(listeners)

    def flush(self) -> None:
        """Tell what was published. To be called before anything else is said to somebody who
        listens, before anybody begins or ceases to listen, and at the end of a turn."""
        topic, self.topic = self.topic, None
        if topic is not None:
            messages, self._messages = self._messages, []
            # A list, because who does not read is cut off in the middle of this.
            Shared(*messages, mark=Published).send_now(list(topic.listeners))

    def drop(self) -> None:
        """What was published did not happen."""
        self.topic = None
        self._messages = []
