"""How Go writes the fields of the built-in types, where their models do not say it.

The facts are those of the json tags in types.go of k8s.io/api, apimachinery, apiextensions-apiserver and
kube-aggregator 0.36. A field is written even if it is absent, as its zero value, where its model requires it
(no `omitempty`) or `WRITTEN` names it: a struct that is no pointer, or a field without `omitempty` that the
API calls optional. So are `metadata`, `spec` and `status`, which are structs in every kind. All other fields
are left out when they are empty or zero; pointers only when they are absent.
"""

from collections.abc import Mapping
from typing import Final

WRITTEN: Final[Mapping[str, str]] = {
    "CoreV1Event": "eventTime firstTimestamp lastTimestamp reportingComponent reportingInstance source",
    "CoreV1EventSeries": "lastObservedTime",
    "EventsV1Event": "deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource regarding",
    "V1APIServiceCondition": "lastTransitionTime",
    "V1AzureFilePersistentVolumeSource": "secretNamespace",
    "V1CSINodeDriver": "topologyKeys",
    "V1CertificateSigningRequestCondition": "lastTransitionTime lastUpdateTime",
    "V1ClusterRole": "rules",
    "V1Container": "resources",
    "V1ContainerImage": "names",
    "V1ContainerStateRunning": "startedAt",
    "V1ContainerStateTerminated": "finishedAt startedAt",
    "V1ContainerStatus": "lastState state",
    "V1ControllerRevision": "data",
    "V1CustomResourceDefinitionCondition": "lastTransitionTime",
    "V1CustomResourceDefinitionStatus": "acceptedNames conditions storedVersions",
    "V1DaemonSetCondition": "lastTransitionTime",
    "V1DaemonSetSpec": "updateStrategy",
    "V1DeploymentCondition": "lastTransitionTime lastUpdateTime",
    "V1DeploymentSpec": "strategy",
    "V1Endpoint": "conditions",
    "V1EndpointSlice": "endpoints ports",
    "V1EphemeralContainer": "resources",
    "V1GRPCAction": "service",
    "V1IngressClassParametersReference": "scope",
    "V1IngressServiceBackend": "port",
    "V1IngressStatus": "loadBalancer",
    "V1JobCondition": "lastProbeTime lastTransitionTime",
    "V1NamespaceCondition": "lastTransitionTime",
    "V1NetworkPolicySpec": "podSelector",
    "V1NodeCondition": "lastHeartbeatTime lastTransitionTime",
    "V1NodeDaemonEndpoints": "kubeletEndpoint",
    "V1NodeRuntimeHandler": "name",
    "V1NodeStatus": "daemonEndpoints nodeInfo",
    "V1PersistentVolumeClaimCondition": "lastProbeTime lastTransitionTime",
    "V1PersistentVolumeClaimSpec": "resources",
    "V1PodCondition": "lastProbeTime lastTransitionTime",
    "V1PodDisruptionBudgetStatus": "currentHealthy desiredHealthy disruptionsAllowed expectedPods",
    "V1PodFailurePolicyOnPodConditionsPattern": "status",
    "V1PodTemplate": "template",
    "V1PriorityClass": "value",
    "V1ProjectedVolumeSource": "sources",
    "V1ReplicaSetCondition": "lastTransitionTime",
    "V1ReplicaSetSpec": "template",
    "V1ReplicationControllerCondition": "lastTransitionTime",
    "V1ResourceFieldSelector": "divisor",
    "V1Role": "rules",
    "V1RoleRef": "apiGroup",
    "V1SelfSubjectReviewStatus": "userInfo",
    "V1ServicePort": "targetPort",
    "V1ServiceStatus": "loadBalancer",
    "V1StatefulSetCondition": "lastTransitionTime",
    "V1StatefulSetOrdinals": "start",
    "V1StatefulSetSpec": "serviceName updateStrategy",
    "V1StatefulSetStatus": "availableReplicas",
    "V1TokenReviewStatus": "user",
    "V1TypedLocalObjectReference": "apiGroup",
    "V1TypedObjectReference": "apiGroup",
    "V1VolumeError": "time",
    "V2HorizontalPodAutoscalerCondition": "lastTransitionTime",
    "V2HorizontalPodAutoscalerStatus": "currentMetrics",
}
"""Fields that are always written although their models do not require them, by type."""

NOT_WRITTEN: Final[Mapping[str, str]] = {
    "V1ContainerRestartRule": "action",
    "V1ContainerRestartRuleOnExitCodes": "operator",
    "V1ImageVolumeStatus": "imageRef",
    "V1PodCertificateProjection": "keyType signerName",
    "V1TokenReviewSpec": "token",
}
"""Required fields that are left out when they are empty."""

POINTERS: Final[Mapping[str, str]] = {
    "AdmissionregistrationV1ServiceReference": "path port",
    "AdmissionregistrationV1WebhookClientConfig": "url",
    "ApiextensionsV1ServiceReference": "path port",
    "ApiextensionsV1WebhookClientConfig": "url",
    "ApiregistrationV1ServiceReference": "port",
    "CoreV1EndpointPort": "appProtocol",
    "DiscoveryV1EndpointPort": "appProtocol name port protocol",
    "StorageV1TokenRequest": "expirationSeconds",
    "V1AppArmorProfile": "localhostProfile",
    "V1AzureDiskVolumeSource": "cachingMode fsType kind readOnly",
    "V1AzureFilePersistentVolumeSource": "secretNamespace",
    "V1CSIDriverSpec": (
        "attachRequired fsGroupPolicy nodeAllocatableUpdatePeriodSeconds podInfoOnMount "
        "preventPodSchedulingIfMissing requiresRepublish seLinuxMount serviceAccountTokenInSecrets "
        "storageCapacity"
    ),
    "V1CSIVolumeSource": "fsType readOnly",
    "V1CertificateSigningRequestSpec": "expirationSeconds",
    "V1ClientIPConfig": "timeoutSeconds",
    "V1ClusterTrustBundleProjection": "name optional signerName",
    "V1ConfigMap": "immutable",
    "V1ConfigMapEnvSource": "optional",
    "V1ConfigMapKeySelector": "optional",
    "V1ConfigMapProjection": "optional",
    "V1ConfigMapVolumeSource": "defaultMode optional",
    "V1Container": "restartPolicy",
    "V1ContainerStatus": "started stopSignal",
    "V1CronJobSpec": (
        "failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit suspend timeZone"
    ),
    "V1CustomResourceDefinitionVersion": "deprecationWarning",
    "V1CustomResourceSubresourceScale": "labelSelectorPath",
    "V1DaemonSetSpec": "revisionHistoryLimit selector",
    "V1DaemonSetStatus": "collisionCount",
    "V1DeploymentSpec": "progressDeadlineSeconds replicas revisionHistoryLimit selector",
    "V1DeploymentStatus": "collisionCount terminatingReplicas",
    "V1DownwardAPIVolumeFile": "mode",
    "V1DownwardAPIVolumeSource": "defaultMode",
    "V1Endpoint": "hostname nodeName zone",
    "V1EndpointAddress": "nodeName",
    "V1EndpointConditions": "ready serving terminating",
    "V1EphemeralContainer": "restartPolicy",
    "V1FCVolumeSource": "lun",
    "V1FileKeySelector": "optional",
    "V1GRPCAction": "service",
    "V1GlusterfsPersistentVolumeSource": "endpointsNamespace",
    "V1HTTPIngressPath": "pathType",
    "V1HorizontalPodAutoscalerSpec": "minReplicas targetCPUUtilizationPercentage",
    "V1HorizontalPodAutoscalerStatus": "currentCPUUtilizationPercentage observedGeneration",
    "V1HostPathVolumeSource": "type",
    "V1ISCSIPersistentVolumeSource": "initiatorName",
    "V1ISCSIVolumeSource": "initiatorName",
    "V1IngressClassParametersReference": "apiGroup namespace scope",
    "V1IngressPortStatus": "error",
    "V1IngressSpec": "ingressClassName",
    "V1JobSpec": (
        "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions "
        "managedBy manualSelector maxFailedIndexes parallelism podReplacementPolicy suspend "
        "ttlSecondsAfterFinished"
    ),
    "V1JobStatus": "failedIndexes ready terminating",
    "V1KeyToPath": "mode",
    "V1LeaseSpec": "holderIdentity leaseDurationSeconds leaseTransitions preferredHolder strategy",
    "V1Lifecycle": "stopSignal",
    "V1LoadBalancerIngress": "ipMode",
    "V1LocalVolumeSource": "fsType",
    "V1MatchResources": "matchPolicy",
    "V1MutatingAdmissionPolicySpec": "failurePolicy",
    "V1MutatingWebhook": "failurePolicy matchPolicy reinvocationPolicy sideEffects timeoutSeconds",
    "V1NamedRuleWithOperations": "scope",
    "V1NetworkPolicyPort": "endPort protocol",
    "V1NodeFeatures": "supplementalGroupsPolicy",
    "V1NodeRuntimeHandlerFeatures": "recursiveReadOnlyMounts userNamespaces",
    "V1NodeSwapStatus": "capacity",
    "V1ParamRef": "parameterNotFoundAction",
    "V1PersistentVolumeClaimSpec": "storageClassName volumeAttributesClassName volumeMode",
    "V1PersistentVolumeClaimStatus": "currentVolumeAttributesClassName",
    "V1PersistentVolumeSpec": "volumeAttributesClassName volumeMode",
    "V1PodCertificateProjection": "maxExpirationSeconds",
    "V1PodDNSConfigOption": "value",
    "V1PodDisruptionBudgetSpec": "unhealthyPodEvictionPolicy",
    "V1PodFailurePolicyOnExitCodesRequirement": "containerName",
    "V1PodResourceClaim": "resourceClaimName resourceClaimTemplateName",
    "V1PodResourceClaimStatus": "resourceClaimName",
    "V1PodSchedulingGroup": "podGroupName",
    "V1PodSecurityContext": (
        "fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy "
        "supplementalGroupsPolicy"
    ),
    "V1PodSpec": (
        "activeDeadlineSeconds automountServiceAccountToken enableServiceLinks hostUsers "
        "hostnameOverride preemptionPolicy priority runtimeClassName setHostnameAsFQDN "
        "shareProcessNamespace terminationGracePeriodSeconds"
    ),
    "V1PortStatus": "error",
    "V1PriorityClass": "preemptionPolicy",
    "V1Probe": "terminationGracePeriodSeconds",
    "V1ProjectedVolumeSource": "defaultMode",
    "V1ReplicaSetSpec": "replicas selector",
    "V1ReplicaSetStatus": "terminatingReplicas",
    "V1ReplicationControllerSpec": "replicas",
    "V1ResourceHealth": "message",
    "V1RollingUpdateStatefulSetStrategy": "partition",
    "V1RuleWithOperations": "scope",
    "V1ScaleIOPersistentVolumeSource": "secretRef",
    "V1ScaleIOVolumeSource": "secretRef",
    "V1SeccompProfile": "localhostProfile",
    "V1Secret": "immutable",
    "V1SecretEnvSource": "optional",
    "V1SecretKeySelector": "optional",
    "V1SecretProjection": "optional",
    "V1SecretVolumeSource": "defaultMode optional",
    "V1SecurityContext": (
        "allowPrivilegeEscalation privileged procMount readOnlyRootFilesystem runAsGroup "
        "runAsNonRoot runAsUser"
    ),
    "V1ServiceAccount": "automountServiceAccountToken",
    "V1ServiceAccountTokenProjection": "expirationSeconds",
    "V1ServicePort": "appProtocol",
    "V1ServiceSpec": (
        "allocateLoadBalancerNodePorts internalTrafficPolicy ipFamilyPolicy loadBalancerClass "
        "trafficDistribution"
    ),
    "V1StatefulSetSpec": "replicas revisionHistoryLimit selector",
    "V1StatefulSetStatus": "collisionCount",
    "V1StorageClass": "allowVolumeExpansion reclaimPolicy volumeBindingMode",
    "V1SuccessPolicyRule": "succeededCount succeededIndexes",
    "V1Toleration": "tolerationSeconds",
    "V1TopologySpreadConstraint": "minDomains nodeAffinityPolicy nodeTaintsPolicy",
    "V1TypedLocalObjectReference": "apiGroup",
    "V1TypedObjectReference": "apiGroup namespace",
    "V1ValidatingAdmissionPolicySpec": "failurePolicy",
    "V1ValidatingWebhook": "failurePolicy matchPolicy sideEffects timeoutSeconds",
    "V1Validation": "reason",
    "V1VolumeAttachmentSource": "persistentVolumeName",
    "V1VolumeError": "errorCode",
    "V1VolumeMount": "mountPropagation recursiveReadOnly",
    "V1VolumeMountStatus": "recursiveReadOnly",
    "V1VolumeNodeResources": "count",
    "V1WindowsSecurityContextOptions": "gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName",
    "V2HPAScalingRules": "policies selectPolicy stabilizationWindowSeconds",
    "V2HorizontalPodAutoscalerSpec": "minReplicas",
    "V2HorizontalPodAutoscalerStatus": "observedGeneration",
    "V2MetricTarget": "averageUtilization",
    "V2MetricValueStatus": "averageUtilization",
}
"""Scalars that are pointers, so that their zero values are written; and structs that are null when absent."""
