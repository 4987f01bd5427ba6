"""The job. It is in a file of its own, because workers import it."""


def write_report(city: str) -> str:
    """A job may run twice, because its worker may die after the work and before it reports the
    end."""
    return f"All about {city}"
