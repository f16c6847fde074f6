"""Names for objects that have only a `generateName`."""

from reconcile.embedded.refusals import name_collision
from reconcile.embedded.verbs.write_request import WriteRequest

# names.go of kube-apiserver: 58 characters of the base and 5 random ones fill a label of 63.
GENERATED_LENGTH = 5
MAX_GENERATED_BASE = 58
# maxNameGenerationCreateAttempts in kube-apiserver's store.go.
NAME_ATTEMPTS = 8

# apimachinery's util/rand: without vowels, and without 0, 1 and 3, so that no words come out.
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def generate_name(write: WriteRequest, base: str) -> str:
    """A free name that begins with `base`; empty without a base. Raises ApiFailure (409) if all are taken."""
    if not base:
        return ""
    for _ in range(NAME_ATTEMPTS):
        letters = (
            _NAME_LETTERS[int(write.engine.clock.random() * len(_NAME_LETTERS))]
            for _ in range(GENERATED_LENGTH)
        )
        name = base[:MAX_GENERATED_BASE] + "".join(letters)
        if write.engine.get(write.resource, write.target.namespace, name) is None:
            return name
    raise name_collision(write.resource, base)
