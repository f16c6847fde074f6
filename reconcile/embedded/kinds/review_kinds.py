"""The reviews of authentication and authorisation, which are answered and never stored."""

from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, spec_and_status

_AUTHENTICATION: Final = "authentication.k8s.io"
_AUTHORIZATION: Final = "authorization.k8s.io"

KINDS: Final = (
    BuiltInKind(
        _AUTHENTICATION, "SelfSubjectReview", namespaced=False, create_only=True,
        messages={
            "SelfSubjectReview": {1: "metadata:ObjectMeta", 2: "status:SelfSubjectReviewStatus"},
            "SelfSubjectReviewStatus": {1: "userInfo:UserInfo"},
            "UserInfo": {1: "username:string", 2: "uid:string", 3: "groups:[string]"},
        },
    ),
    BuiltInKind(_AUTHENTICATION, "TokenReview", namespaced=False, create_only=True),
    BuiltInKind(_AUTHORIZATION, "LocalSubjectAccessReview", create_only=True),
    BuiltInKind(
        _AUTHORIZATION, "SelfSubjectAccessReview", namespaced=False, create_only=True,
        messages={
            **spec_and_status("SelfSubjectAccessReview", "SubjectAccessReview"),
            "SelfSubjectAccessReviewSpec": {
                1: "resourceAttributes:*ResourceAttributes",
                2: "nonResourceAttributes:*NonResourceAttributes",
            },
            "ResourceAttributes": {
                1: "namespace:string", 2: "verb:string", 3: "group:string", 4: "version:string",
                5: "resource:string", 6: "subresource:string", 7: "name:string",
            },
            "NonResourceAttributes": {1: "path:string", 2: "verb:string"},
            "SubjectAccessReviewStatus": {
                1: "allowed:bool", 2: "reason:string", 3: "evaluationError:string", 4: "denied:bool",
            },
        },
    ),
    BuiltInKind(
        _AUTHORIZATION, "SelfSubjectRulesReview", namespaced=False, create_only=True,
        messages={
            **spec_and_status("SelfSubjectRulesReview", "SubjectRulesReview"),
            "SelfSubjectRulesReviewSpec": {1: "namespace:string"},
            "SubjectRulesReviewStatus": {3: "incomplete:bool", 4: "evaluationError:string"},
        },
    ),
    BuiltInKind(_AUTHORIZATION, "SubjectAccessReview", namespaced=False, create_only=True),
)  # fmt: skip
