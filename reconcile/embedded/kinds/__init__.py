"""The built-in kinds, in one file for each group, and the kinds that definitions add.

To add a kind, write its `BuiltInKind` into the file of its group and, for a new file, name it below.
"""

from typing import Final

from reconcile.embedded.kinds import (
    admission_policies,
    api_services,
    apps_kinds,
    autoscaling,
    batch_kinds,
    config_data,
    coordination,
    core_kinds,
    custom_definitions,
    events,
    limit_ranges,
    networking,
    nodes,
    pod_kinds,
    policy_kinds,
    priority_classes,
    rbac,
    replication_controllers,
    resource_quotas,
    review_kinds,
    services,
    storage,
    storage_migrations,
    webhook_kinds,
)
from reconcile.embedded.kinds.built_in_kind import BuiltInKind
from reconcile.embedded.kinds.catalogue import Catalogue
from reconcile.embedded.kinds.pod_templates import with_template

__all__ = ["BUILT_IN", "BuiltInKind", "Catalogue"]

_FILES: Final = (
    admission_policies, api_services, apps_kinds, autoscaling, batch_kinds, config_data, coordination,
    core_kinds, custom_definitions, events, limit_ranges, networking, nodes, pod_kinds, policy_kinds,
    priority_classes, rbac, replication_controllers, resource_quotas, review_kinds, services, storage,
    storage_migrations, webhook_kinds,
)  # fmt: skip
BUILT_IN: Final[tuple[BuiltInKind, ...]] = tuple(
    with_template(kind) for file in _FILES for kind in file.KINDS
)
