"""One small object of each built-in kind beyond the first few, by the path of its collection."""

from typing import Any

POD = {"containers": [{"name": "a", "image": "a"}]}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": POD}
SELECTOR = {"matchLabels": {"app": "a"}}
ENDING = {"spec": {**POD, "restartPolicy": "Never"}}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
WEBHOOK = {
    "name": "a.example.com",
    "clientConfig": {"service": {"namespace": "default", "name": "a"}},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "rules": [RULE],
}
MATCH = {"resourceRules": [RULE]}

OBJECTS: dict[str, dict[str, Any]] = {
    "/apis/apps/v1/namespaces/default/statefulsets": {
        "spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "a"}
    },
    "/apis/apps/v1/namespaces/default/daemonsets": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "/api/v1/namespaces/default/replicationcontrollers": {
        "spec": {"selector": SELECTOR["matchLabels"], "template": TEMPLATE}
    },
    "/apis/apps/v1/namespaces/default/controllerrevisions": {"revision": 1, "data": {"a": 1}},
    "/apis/batch/v1/namespaces/default/jobs": {"spec": {"template": ENDING}},
    "/apis/batch/v1/namespaces/default/cronjobs": {
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ENDING}}}
    },
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "spec": {"selector": SELECTOR, "minAvailable": "50%"}
    },
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 7},
    "/apis/storagemigration.k8s.io/v1/storageversionmigrations": {
        "spec": {"resource": {"group": "example.com", "resource": "widgets"}}
    },
    "/apis/storage.k8s.io/v1/storageclasses": {"provisioner": "example.com/disk"},
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"port": 80}],
    },
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses": {
        "spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}
    },
    "/apis/networking.k8s.io/v1/ingressclasses": {"spec": {"controller": "example.com/a"}},
    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies": {"spec": {"podSelector": {}}},
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": {"webhooks": [WEBHOOK]},
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {"webhooks": [WEBHOOK]},
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": {
        "spec": {"matchConstraints": MATCH, "validations": [{"expression": "object.spec.replicas < 5"}]}
    },
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies": {
        "spec": {
            "matchConstraints": MATCH,
            "reinvocationPolicy": "Never",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
            ],
        }
    },
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": {
        "spec": {"policyName": "a", "validationActions": ["Deny"]}
    },
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings": {"spec": {"policyName": "a"}},
    "/api/v1/namespaces/default/persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "/api/v1/persistentvolumes": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/tmp"},
        }
    },
    "/api/v1/namespaces/default/resourcequotas": {"spec": {"hard": {"pods": "1"}}},
    "/api/v1/namespaces/default/limitranges": {"spec": {"limits": []}},
    "/api/v1/namespaces/default/endpoints": {"subsets": []},
}
