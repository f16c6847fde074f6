"""The annotations that Artifact Hub reads, in the form of its documentation."""

import pytest
import yaml
from attrs import evolve

from reconcile.shipping.artifact_hub import artifact_hub_annotations, words_of
from reconcile.shipping.changes import Change
from reconcile.shipping.documents import Document
from reconcile.shipping.project import Project
from reconcile.shipping.samples import sample_of

PROJECT = Project(name="sites", version="1.2.0", license="Apache-2.0")
IMAGE = "registry.example.com/sites:1.2.0"


def version(name: str, description: str = "", served: bool = True) -> Document:
    schema = {"type": "object", **({"description": description} if description else {})}
    return {"name": name, "served": served, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}


SITES: Document = {
    "metadata": {"name": "websites.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "WebSite", "plural": "websites"},
        "versions": [
            version("v1", "A site: 'quoted', and kept."),
            version("v1beta1"),
            version("v1alpha1", served=False),
        ],
    },
}


def test_a_chart_shows_the_served_versions_of_its_kinds() -> None:
    annotations = artifact_hub_annotations(PROJECT, [SITES], [sample_of(SITES)], IMAGE)
    assert annotations["artifacthub.io/operator"] == "true"
    assert annotations["artifacthub.io/operatorCapabilities"] == "Basic Install"
    assert annotations["artifacthub.io/license"] == "Apache-2.0"
    assert yaml.safe_load(annotations["artifacthub.io/images"]) == [{"name": "sites", "image": IMAGE}]
    common = {"kind": "WebSite", "name": "websites.example.com", "displayName": "Web Site"}
    assert yaml.safe_load(annotations["artifacthub.io/crds"]) == [
        {**common, "version": "v1", "description": "A site: 'quoted', and kept."},
        {**common, "version": "v1beta1", "description": "WebSite of example.com/v1beta1."},
    ]
    (sample,) = yaml.safe_load(annotations["artifacthub.io/crdsExamples"])
    assert (sample["apiVersion"], sample["kind"]) == ("example.com/v1", "WebSite")


def test_all_annotations_are_text() -> None:
    annotations = artifact_hub_annotations(PROJECT, [SITES], [sample_of(SITES)], IMAGE)
    assert {type(value) for value in annotations.values()} == {str}


def test_security_fixes_are_announced() -> None:
    changes = [Change("fixed", "a"), Change("security", "b: c")]
    annotations = artifact_hub_annotations(evolve(PROJECT, changes=changes), [], [], IMAGE)
    assert annotations["artifacthub.io/containsSecurityUpdates"] == "true"
    assert yaml.safe_load(annotations["artifacthub.io/changes"]) == [
        {"kind": "fixed", "description": "a"},
        {"kind": "security", "description": "b: c"},
    ]
    quiet = artifact_hub_annotations(PROJECT, [], [], IMAGE)
    assert not {
        "artifacthub.io/changes",
        "artifacthub.io/containsSecurityUpdates",
        "artifacthub.io/crds",
    } & set(quiet)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("RayCluster", "Ray Cluster"),
        ("HTTPRoute", "HTTP Route"),
        ("pullSecret", "Pull Secret"),
        ("podIPs", "Pod IPs"),
        ("replicas", "Replicas"),
        ("v2Hosts", "V2 Hosts"),
    ],
)
def test_names_are_shown_as_words(name: str, words: str) -> None:
    assert words_of(name) == words
