"""What a monitoring system is given to watch an operator. Pure functions and values.

- `slos`: the service levels, their error budgets and the rules that record them.
- `alerts`: what is told, to whom and after how long.
- `dashboards`: which dashboards of Grafana it has. `overview_dashboard`, `cache_dashboard`,
  `process_dashboards`: what they show; `panels`: how Grafana has it.
- `rules`: both as groups of a PrometheusRule, for the series of one operator.
"""

__all__: list[str] = []
