"""The incident of AIBrix 986, and fleets as AIBrix defined them before its fix.

No controller imports this.
"""

__all__: list[str] = []
