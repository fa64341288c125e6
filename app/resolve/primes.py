"""Prime numbers, which hashed embedding tables take as their sizes."""

from functools import lru_cache


@lru_cache(maxsize=64)
def primes_from(start: int, count: int) -> tuple[int, ...]:
    """The first `count` primes that are not below `start` (below 2^32)."""
    found: list[int] = []
    number = max(2, start)
    while len(found) < count:
        if _is_prime(number):
            found.append(number)
        number += 1
    return tuple(found)


def _is_prime(number: int) -> bool:
    """Miller-Rabin with the witnesses that decide every number below 3 215 031 751."""
    witnesses = (2, 3, 5, 7)
    if any(number % small_prime == 0 for small_prime in witnesses):
        return number in witnesses
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return number > 1 and all(_passes(number, base, odd, twos) for base in witnesses)


def _passes(number: int, base: int, odd: int, twos: int) -> bool:
    value = pow(base, odd, number)
    if value in (1, number - 1):
        return True
    for _ in range(twos - 1):
        value = value * value % number
        if value == number - 1:
            return True
    return False
