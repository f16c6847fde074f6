"""How the life of a simulated process is named in Leases, for invariants to know it again."""


def identity_of(process: int, life: int) -> str:
    """The identity of that life of manager number `process`."""
    return f"manager-{process}.{life}"


def is_life_of(identity: str, process: int) -> bool:
    """Whether it is the identity of any life of manager number `process`."""
    return identity.startswith(f"manager-{process}.")
