"""The container of kept answers: its order, its bound, and that its parts agree."""

from hypothesis import given
from hypothesis import strategies as st

from app.answers.kept import Answered
from app.answers.second_chance import SecondChance


def _weighing(size: int) -> Answered:
    return Answered(bytes(size))


def _second_chance(max_size: int) -> SecondChance[int, Answered]:
    return SecondChance(max_size, lambda answer: len(answer.body))


def test_what_was_asked_for_outlives_what_was_not():
    kept = _second_chance(100)
    for key in range(10):
        kept.put(key, _weighing(10))
    assert kept.find(0) is not None
    for key in range(10, 19):
        kept.put(key, _weighing(10))
    assert [key for key in range(19) if kept.find(key) is not None] == [0, *range(10, 19)]
    kept.put(19, _weighing(10))  # all were asked for: each has had its round, and the first goes
    assert (kept.find(19) is not None, len(kept), kept.size) == (True, 10, 100)


def test_a_value_takes_anothers_place_and_its_room():
    kept = _second_chance(100)
    for size in (5, 9, 12, 13):
        kept.put(1, _weighing(size))
    assert (len(kept), kept.size) == (1, 12)  # 13 are over an eighth
    kept.forget(1)
    kept.forget(1)
    assert (len(kept), kept.size, kept.find(1)) == (0, 0, None)


@given(st.lists(st.tuples(st.sampled_from("pfx"), st.integers(0, 30), st.integers(1, 30))))
def test_whatever_is_done_the_sizes_add_up_within_the_bound(done: list[tuple[str, int, int]]):
    kept, mirror = _second_chance(200), dict[int, int]()
    for what, key, size in done:
        if what == "p":
            kept.put(key, _weighing(size))
            mirror[key] = size if size <= 25 else mirror.get(key, 0)
        elif what == "x":
            kept.forget(key)
            mirror.pop(key, None)
        else:
            found = kept.find(key)
            assert found is None or len(found.body) == mirror[key]
        held = [len(value.body) for n in mirror if (value := kept.find(n)) is not None]
        assert (sum(held), len(held)) == (kept.size, len(kept))
        assert kept.size <= 200


def test_keys_that_were_forgotten_do_not_pile_up():
    kept = _second_chance(100)
    for number in range(10_000):
        kept.put(number % 3, _weighing(1))
    assert len(kept._order) < 3000
