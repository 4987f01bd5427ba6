"""Numbers as short texts with their units, for terminals and pages. No I/O."""

UNKNOWN = "–"


def count(number: float | None) -> str:
    """0.05, 950, 1.2k, 3.4M."""
    if number is None:
        return UNKNOWN
    if 0.001 <= number < 0.095:
        return f"{number:.1g}"
    if number < 999.5:
        return f"{number:.1f}" if 0 < number < 9.95 and number % 1 else f"{number:.0f}"
    return _with_unit(number, 1000, "kMGT")


def size(nbytes: float | None) -> str:
    """950B, 1.2K, 3.4M, as redis-cli has it: 1K is 1024 bytes."""
    if nbytes is None:
        return UNKNOWN
    return f"{nbytes:.0f}B" if nbytes < 1023.5 else _with_unit(nbytes, 1024, "KMGTP")


def _with_unit(number: float, step: int, units: str) -> str:
    number /= step
    while number >= step - 0.5 and len(units) > 1:
        number, units = number / step, units[1:]
    return f"{number:.{int(number < 99.95)}f}{units[0]}"


def micros(us: float | None) -> str:
    """118 µs, 1.2 ms, 3.4 s."""
    if us is None:
        return UNKNOWN
    if us < 999.5:
        return f"{us:.0f} µs"
    if us < 999_500:
        return f"{us / 1000:.1f} ms" if us < 99_950 else f"{us / 1000:.0f} ms"
    return seconds(us / 1e6)


def seconds(number: float | None) -> str:
    """0 s, 12 ms, 3.4 s, 5 min, 7 h, 9 d."""
    if number is None:
        return UNKNOWN
    if 0 < number < 0.9995:
        return f"{number * 1000:.0f} ms"
    if number < 119.5:
        return f"{number:.1f} s" if number % 1 and number < 9.95 else f"{number:.0f} s"
    for limit, divisor, unit in ((7200, 60, "min"), (172_800, 3600, "h")):
        if number < limit:
            return f"{number / divisor:.0f} {unit}"
    return f"{number / 86400:.0f} d"


def percent(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"
