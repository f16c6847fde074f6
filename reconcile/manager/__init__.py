"""Runs controllers: one manager, its options, its clusters and its leadership.

- `manager` starts and stops everything in order; `lifecycle` and `signals` make a program or a context of it.
- Options: `option_list` (the one list), `option_values` (readers), `option_checks` (what must fit together).
- `event_loops`, `loop_threads`: managers in threads of their own, which share the objects as replicas do.
- Building: `transports`, `assembly`, `managed_clusters`, `runner_set`.
- `webhook_serving`: admission and conversion, from before the first lists until the end.
- Before the first run: `server_readiness`, `installed_definitions`, `predecessor_check`.
- `definition_keeping`: definitions and stored objects come to the versions of the classes, if asked for.
- `leadership` guards writes, `shadow` answers them in their place.
"""

__all__: list[str] = []
