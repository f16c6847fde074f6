"""The operator: the controllers of all kinds under one manager."""

from daskclusters import dask_clusters, worker_groups

from reconcile import Manager

manager = Manager(dask_clusters, worker_groups())
