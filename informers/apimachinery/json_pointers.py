"""JSON pointers (RFC 6901): `/spec/template`, with `~1` for a slash and `~0` for a tilde within a step."""


def pointer_steps(pointer: str) -> tuple[str, ...]:
    """The steps of a pointer; none for the whole document. Raises ValueError if no slash comes first."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(
            f"{pointer!r} is not a JSON pointer: expected /spec/template, or nothing for the whole object"
        )
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def pointer_below(pointer: str, step: str) -> str:
    """The pointer to a member of the value at `pointer`."""
    return f"{pointer}/{step.replace('~', '~0').replace('/', '~1')}"
