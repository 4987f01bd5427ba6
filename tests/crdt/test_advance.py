"""The quick path for the usual change of a string or list, and the cases that must not take it."""

from holdfast.crdt.dots import Author, Vector
from holdfast.crdt.effects import ADD, DELETE, POP, WRITE, Effect
from holdfast.crdt.replicated_key import ReplicatedKey
from holdfast.crdt.replicated_list import ReplicatedList, pieces_of_run

STRING, LIST = "string", "list"


def key_with(*effects: Effect) -> ReplicatedKey:
    key = ReplicatedKey()
    for effect in effects:
        key.integrate(STRING, effect)
    return key


def write(key: ReplicatedKey, value: bytes, replica: int, seen: Vector | None = None) -> Effect:
    effect: Effect = key.part(STRING).write(None, value, Author(replica, 10 * replica, seen or {}))
    return effect


def add(key: ReplicatedKey, amount: int, replica: int, seen: Vector | None = None) -> Effect:
    effect: Effect = key.part(STRING).add(None, amount, Author(replica, 10, seen or {}))
    return effect


def advance(key: ReplicatedKey, effect: Effect, kind: str = STRING) -> bool:
    """Whether it went the short way."""
    if kind == LIST:
        values: ReplicatedList | None = key.find(LIST)
        return values is not None and values.at_end(effect) is not None
    text = key.text if kind == STRING else None
    if text is None or (effect[0] != ADD and (effect[0] != WRITE or len(effect[5]) != 1)):
        return False
    if effect[0] == ADD:
        return text.count(effect[2], effect[3], effect[5])
    return text.overwrite(effect[5][0], effect[2], effect[3], effect[4])


def test_a_write_that_saw_the_only_one() -> None:
    first = write(ReplicatedKey(), b"a", 1)
    key = key_with(first)
    second = write(key, b"b", 2)
    assert advance(key, second)
    assert key.view() == b"b"
    assert list(key.rows()) == list(key_with(first, second).rows())
    assert not advance(key, second), "a second time"


def test_the_next_addition() -> None:
    first = add(ReplicatedKey(), 5, 1)
    key = key_with(first)
    second = add(key, 2, 1, {1: 1})
    assert advance(key, second)
    assert key.view() == b"7"
    assert list(key.rows()) == list(key_with(first, second).rows())
    assert not advance(key, second), "a second time"


def test_a_write_in_place_of_what_its_author_wrote() -> None:
    """It names nothing, and replaces neither the writes of others nor later ones."""
    own, other = write(ReplicatedKey(), b"a", 1), write(ReplicatedKey(), b"b", 2)
    later = (WRITE, None, 3 << 16 | 1, 10, b"c", None, ())
    assert key_with(own, later).view() == b"c"
    assert key_with(own, later).part(STRING).cell.dots == (3 << 16 | 1,)
    both = key_with(own, other, later)
    assert sorted(both.part(STRING).cell.dots) == [1 << 16 | 2, 3 << 16 | 1]
    key = key_with(own, later)
    cell = key.part(STRING).cell
    for refused in (both, key_with(own, add(key, 1, 1)), key_with(other), ReplicatedKey()):
        held = refused.part(STRING).cell
        before = held.writes
        assert not held.overwrite_own(4 << 16 | 1, 10, b"d")
        assert held.writes == before
    assert not cell.overwrite_own(2 << 16 | 1, 10, b"d"), "before it"
    assert not cell.overwrite_own(3 << 16 | 1, 10, b"c"), "a second time"
    one_way, other_way = key_with(own), key_with(own, later)
    assert one_way.part(STRING).cell.overwrite_own(3 << 16 | 1, 10, b"c")
    assert list(one_way.rows()) == list(other_way.rows())
    key.integrate(STRING, (WRITE, None, 2 << 16 | 1, 10, b"between", None, ()))
    assert sorted(cell.dots) == [2 << 16 | 1, 3 << 16 | 1], "until the later one is told again"
    key.integrate(STRING, later)
    assert cell.dots == (3 << 16 | 1,)


def test_a_write_that_saw_one_of_two() -> None:
    one, two = write(ReplicatedKey(), b"a", 1), write(ReplicatedKey(), b"b", 2)
    key = key_with(one, two)
    assert key.view() == b"b"
    assert not advance(key, write(key_with(two), b"c", 3))


def test_a_write_that_saw_another_one() -> None:
    one, two = write(ReplicatedKey(), b"a", 1), write(ReplicatedKey(), b"b", 2)
    assert not advance(key_with(one), write(key_with(two), b"c", 3))
    assert not advance(key_with(one), two)


def test_a_write_to_a_counter() -> None:
    key = key_with(add(ReplicatedKey(), 5, 1))
    assert not advance(key, write(key, b"b", 2))
    written = key_with(write(ReplicatedKey(), b"1", 1))
    counted = key_with(write(ReplicatedKey(), b"1", 1), add(written, 5, 1, {1: 1}))
    assert not advance(counted, write(counted, b"b", 2))


def test_an_addition_to_a_counter_that_was_removed_meanwhile() -> None:
    """The key is not seen before it, and is after it."""
    first = add(ReplicatedKey(), 5, 1)
    key = key_with(first)
    for kind, effect in key.delete(Author(2, 20, {1: 1})):
        key.integrate(kind, effect)
    assert key.type is None
    second = add(key_with(first), 2, 1, {1: 1})
    assert not advance(key, second)
    key.integrate(STRING, second)
    assert key.view() == b"2"


def test_an_addition_of_another_replica() -> None:
    key = key_with(add(ReplicatedKey(), 5, 1))
    assert not advance(key, add(ReplicatedKey(), 2, 2))
    assert not advance(key, add(key_with(add(ReplicatedKey(), 3, 2)), 2, 2, {2: 1}))


def test_an_addition_that_begins_anew() -> None:
    assert not advance(key_with(add(ReplicatedKey(), 5, 1)), add(ReplicatedKey(), 2, 1, {1: 7}))


def test_a_key_that_also_holds_something_else() -> None:
    key = key_with(write(ReplicatedKey(), b"a", 1))
    key.part("set")
    assert not advance(key, write(key, b"b", 1, {1: 1}))


def test_pushes_to_the_right_of_all() -> None:
    values = ReplicatedList()
    first = values.push_right([b"a"], Author(1, 10, {}))
    assert values.at_end(first) is not None
    more = values.push_right([b"%d" % i for i in range(100)], Author(1, 11, {1: 1}))
    keys = values.at_end(more)
    assert keys is not None
    assert values.range(1, -1) == [b"%d" % i for i in range(100)]
    assert pieces_of_run(keys) == {values.piece_of(key) for key in keys}
    assert values.at_end(more) is None, "a second time"


def test_pushes_that_belong_elsewhere() -> None:
    values = ReplicatedList()
    early, late = (values.push_right([b"x"], Author(each, 10 + each, {})) for each in (1, 2))
    values.integrate(late)
    assert values.at_end(early) is None
    assert values.at_end(values.push_left([b"y"], Author(1, 30, {}))) is None
    assert values.at_end(values.insert(0, b"y", Author(1, 30, {}))) is None
    assert values.view() == [b"x"]


def pushed(count: int) -> ReplicatedList:
    values = ReplicatedList()
    values.integrate(values.push_right([b"%d" % i for i in range(count)], Author(1, 10, {})))
    return values


def test_pops_at_either_end() -> None:
    values = pushed(1000)
    for effect, place in ((values.pop_left(300), 0), (values.pop_right(200), -1)):
        assert effect[0] == POP
        twin = pushed(1000)
        assert len(twin.integrate(effect)) == effect[2]
        keys = values.at_end(effect)
        assert keys is not None
        assert pieces_of_run(keys) == {values.piece_of(key) for key in keys}
        assert values.at_end(effect) is None, "a second time"
        assert values.is_left_of(keys[0]) == (place == -1)
    assert values.view() == [b"%d" % i for i in range(300, 800)]


def test_pops_that_are_no_run() -> None:
    """Something was removed between, or came between."""
    gap, more = pushed(10), pushed(10)
    gap.integrate(gap.delete([3]))
    assert gap.pop_left(5)[0] == DELETE
    more.integrate(more.insert(1, b"x", Author(2, 20, {1: 10})))
    effect = more.pop_left(3)
    assert effect[0] == DELETE
    more.integrate(effect)
    assert more.view() == [b"%d" % i for i in range(2, 10)]


def test_pops_whose_elements_are_elsewhere_by_now() -> None:
    effect = pushed(10).pop_left(4)
    behind = pushed(10)
    behind.integrate(behind.push_left([b"x", b"y"], Author(2, 20, {1: 10})))
    assert behind.at_end(effect) is None
    behind.integrate(effect)
    assert behind.view() == [b"y", b"x", *(b"%d" % i for i in range(4, 10))]
    partly = pushed(10)
    partly.integrate(partly.delete([1]))
    assert partly.at_end(effect) is None
    partly.integrate(effect)
    assert partly.view() == [b"%d" % i for i in range(4, 10)]


def test_pops_that_leave_nothing_or_forget_a_stamp() -> None:
    values = pushed(4)
    assert values.at_end(values.pop_left(4)) is None
    setting = values.set(0, b"new", Author(1, 20, {1: 4}))
    assert setting is not None
    values.integrate(setting)
    assert values.at_end(values.pop_left(2)) is None


def test_pieces_of_runs_and_of_others() -> None:
    for change in (None, "gap", "between", "set"):
        values = pushed(100)
        author = Author(2, 20, {1: 100})
        if change == "gap":
            values.integrate(values.delete([50]))
        elif change == "between":
            values.integrate(values.insert(50, b"x", author))
            values.integrate(values.delete([50 + 2]))  # as many as before
        elif change == "set":
            effect = values.set(50, b"x", author)
            assert effect is not None
            values.integrate(effect)
        places = {values.piece_of(position) for position, _ in values.rows()}
        pieces = {place: values.piece(place) for place in places}
        kinds = {isinstance(piece[0], int) for piece in pieces.values() if piece is not None}
        assert kinds == (
            {True} if change is None else {True, False} if change != "set" else {False}
        )
        again = ReplicatedList()
        for place, piece in pieces.items():
            again.put_piece(place, piece)
        assert list(again.rows()) == list(values.rows())
