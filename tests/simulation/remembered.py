"""What code of another module remembers, for the tests of what explore sees of it."""

table: dict[str, int] = {}
runs = 0


def note(name: str) -> None:
    table[name] = len(table)
