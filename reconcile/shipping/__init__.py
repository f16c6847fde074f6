"""What an operator is shipped as: its declarations become objects, charts and bundles. Pure functions.

- `installation`: the objects that run an operator in a cluster.
- `documents`: objects as text.
- `chart`: the same objects as a Helm chart. `chart_values`, `chart_cases`, `chart_extras`, `templates`: its
  parts.
- `monitoring`: what has Prometheus and Grafana watch it; `chart_monitoring`: the same in a chart.
- `generated_files`, `three_way_merge`: generating again what people have changed.
- `finalizers`: which finalizer belongs to which operator.
- `upgrade_plan`: which rights and webhooks a new version needs.
- `uninstall_job`: the Job that uninstalls an operator from within its cluster.
- `project`, `changes`: what the operator's project says of itself and of a version.
- `samples`: first objects of its kinds.
- `artifact_hub`: what Artifact Hub shows of a chart or a bundle.
- `bundle`, `service_version`, `descriptors`: what the Operator Lifecycle Manager installs and shows.
"""

__all__: list[str] = []
