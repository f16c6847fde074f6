"""What of a resource is followed, and how it is kept."""

from collections.abc import Sequence

from attrs import evolve, field, fields, frozen

from informers.compression import Compression
from informers.functions import check_function
from informers.resource import APIResource
from informers.stored_shape import MANAGED_FIELDS, StoredShape, Transform


def _transforms(_: object, __: object, transform: Transform | None) -> None:
    if transform is not None:
        check_function(transform, "InformerOptions: transform=", "object", "plain")


@frozen
class InformerOptions:
    """What of a resource is followed, and how it is kept. None takes the value of the level above.

    `namespaces` are followed one by one (empty: all). `labels`, `fields` and `shard` are selectors as the API
    server takes them (empty: everything). With `metadata_only` the server sends nothing but metadata. `drop`
    are JSON pointers of what is not kept; `transform` changes the rest, under the pointers in `transformed`.
    `compress` costs 10 us at each change and 5 us at each read of a body, and saves two thirds to four fifths
    of its memory; without the extra `zstd` it takes three times as long. By default a store of 64 MiB or more
    whose bodies are seldom read compresses them in the background; False never compresses.
    """

    namespaces: Sequence[str] | None = None
    labels: str | None = None
    fields: str | None = None
    shard: str | None = None
    metadata_only: bool | None = None
    drop: Sequence[str] | None = None
    transform: Transform | None = field(default=None, validator=_transforms)
    transformed: Sequence[str] | None = None
    compress: bool | None = None

    def over(self, defaults: "InformerOptions") -> "InformerOptions":
        """These options, completed by `defaults`."""
        said = {name: value for name in _OPTIONS if (value := getattr(self, name)) is not None}
        return evolve(defaults, **said) if said else defaults

    def shape(self, resource: APIResource) -> StoredShape:
        """How objects of a resource are kept, for one store."""
        return StoredShape(
            drop=(MANAGED_FIELDS,) if self.drop is None else tuple(self.drop),
            transform=self.transform,
            transformed=("",) if self.transformed is None else tuple(self.transformed),
            metadata_only=bool(self.metadata_only),
            compression=_compression(self.compress),
            type_meta=_type_meta(resource, bool(self.metadata_only)),
        )

    def query(self) -> dict[str, str]:
        """The selectors, as parameters of a list or watch."""
        named = {"labelSelector": self.labels, "fieldSelector": self.fields, "shardSelector": self.shard}
        return {name: value for name, value in named.items() if value}


_OPTIONS = tuple(option.name for option in fields(InformerOptions))


def _compression(compress: bool | None) -> Compression | None:
    if compress is None:
        return Compression()
    if not compress:
        return None
    from informers.codecs import codec

    return Compression(codec())


def _type_meta(resource: APIResource, metadata_only: bool) -> bytes:
    kind, version = resource.kind, resource.api_version
    if metadata_only:
        kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
    return b'"kind":"%s","apiVersion":"%s",' % (kind.encode(), version.encode())
