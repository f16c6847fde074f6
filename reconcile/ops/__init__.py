"""What people and machines see of a manager: metrics, traces, health, pages, logs."""

__all__: list[str] = []
