"""What is wrong with an operator in a cluster: facts are read once, and pure functions find faults in them.

- `findings`: what a check answers.
- `objects`: the objects that are read, as far as checks look at them.
- `facts`, `gathering`, `reading`: what was read, and how.
- `declared`: what the operator's code and its Deployment say that it needs.
- `checks`: all checks; each family has a module of its own.
"""

__all__: list[str] = []
