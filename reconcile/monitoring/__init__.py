"""What a monitoring system is given to watch an operator. Pure functions and values.

- `slos`: the service levels, their error budgets and the rules that record them.
- `alerts`: what is told, to whom and after how long.
- `rules`: both as groups of a PrometheusRule, for the series of one operator.
"""

__all__: list[str] = []
