"""The job. A worker imports it, so it stands in a file of its own."""


def write_report(city: str) -> str:
    """A job must bear to run twice: its worker may die after the work and before its end."""
    return f"All about {city}"
