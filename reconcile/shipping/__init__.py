"""What an operator is shipped as: its declarations become objects, charts and bundles. Pure functions.

- `installation`: the objects that run an operator in a cluster.
- `documents`: objects as text.
- `finalizers`: which finalizer belongs to which operator.
- `uninstall_job`: the Job that uninstalls an operator from within its cluster.
"""

__all__: list[str] = []
