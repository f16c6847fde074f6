"""The operator: the controllers of all kinds under one manager."""

from daskautoscalers import dask_autoscalers
from daskclusters import dask_clusters, worker_groups
from daskjobs import dask_jobs

from reconcile import Manager

manager = Manager(dask_clusters(), worker_groups(), dask_jobs, dask_autoscalers())
