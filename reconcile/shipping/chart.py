"""The Helm chart of an operator, from the same objects as its kustomize base. Pure functions: from an
`Installation` to texts.

The objects are made for each case that a value decides, and the templates of all cases are one (`either`).
So a rendering of the default values is the kustomize base, whatever that comes to have.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import evolve

from reconcile.models import kind_of
from reconcile.shipping.artifact_hub import artifact_hub_annotations
from reconcile.shipping.chart_cases import UNINSTALL, Cases, Definitions, placeholders
from reconcile.shipping.chart_extras import certificate, ready_test
from reconcile.shipping.chart_values import Choices, image_parts, values_file, values_of, values_schema
from reconcile.shipping.documents import Document, as_yaml
from reconcile.shipping.installation import Installation
from reconcile.shipping.project import Project, ProjectError, semantic_version
from reconcile.shipping.templates import Either, Tree, template_of

RECORD: Final = ".reconcile-chart.json"
"""The file of a chart's folder that has what was generated last."""


def chart_of(
    operator: Installation,
    definitions: Definitions,
    choices: Choices,
    project: Project,
    samples: Sequence[Document] = (),
) -> Mapping[str, str]:
    """The files of the chart of that version of a project, by their paths in its folder."""
    kinds = definitions(operator.webhook_service)
    choices = evolve(choices, definitions=bool(kinds))
    values = list(values_of(operator, choices))
    return {
        "Chart.yaml": as_yaml(_about(operator, project, kinds, samples)),
        "values.yaml": values_file(values),
        "values.schema.json": f"{json.dumps(values_schema(values), indent=2)}\n",
        ".helmignore": _IGNORED,
        "templates/_helpers.tpl": _HELPERS.replace("NAME", operator.name),
        "templates/NOTES.txt": _notes(operator, choices),
        **_templates(Cases.of(operator, definitions, choices)),
    }


def chart_version(image: str) -> str:
    """The version of the chart: that of the image, if its tag is one."""
    try:
        return semantic_version(image_parts(image)["tag"].removeprefix("v"))
    except ProjectError:
        return "0.1.0"


def _about(
    operator: Installation, project: Project, kinds: Sequence[Document], samples: Sequence[Document]
) -> Document:
    """Chart.yaml."""
    maintainers = [{"name": one.name, "email": one.email} for one in project.maintainers]
    return {
        "apiVersion": "v2",
        "name": operator.name,
        "description": project.summary or f"The operator {operator.name}",
        "type": "application",
        "version": project.version,
        "appVersion": image_parts(operator.image)["tag"] or project.version,
        **({"keywords": list(project.keywords)} if project.keywords else {}),
        **({"maintainers": maintainers} if maintainers else {}),
        "annotations": dict(artifact_hub_annotations(project, kinds, samples, operator.image)),
    }


def _templates(cases: Cases) -> Mapping[str, str]:
    operator = cases.operator
    files: dict[str, list[Tree]] = {path: list(documents) for path, documents in cases.files().items()}
    for path in files:
        if path.startswith("crd_"):
            files[path] = [Either(".Values.crds.install", files[path])]
    # Helm needs the namespace of a release before the release, so that one cannot be an object of it.
    elsewhere = f'ne (include "{operator.name}.namespace" $) .Release.Namespace'
    files["namespace.yaml"] = [Either(elsewhere, files["namespace.yaml"])]
    files[UNINSTALL] = [Either(".Values.uninstall.enabled", files[UNINSTALL])]
    if operator.routes:
        files["certificate.yaml"] = [certificate(operator)]
    files["tests/ready.yaml"] = list(ready_test(operator))
    filled = placeholders(operator.name)
    return {f"templates/{path}": template_of(file, filled) for path, file in files.items()}


_IGNORED: Final = f"""\
.git/
.gitignore
{RECORD}
*.tmp
*.orig
*.tgz
"""

_HELPERS: Final = """\
{{/* The namespace of the operator. */}}
{{- define "NAME.namespace" -}}
{{- .Values.namespace | default .Release.Namespace -}}
{{- end }}

{{/* The image; a tag and a digest are optional. */}}
{{- define "NAME.image" -}}
{{- .Values.image.repository -}}
{{- with .Values.image.tag }}:{{ . }}{{ end -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end }}
"""

_NOTES: Final = """\
NAME runs in the namespace {{ include "NAME.namespace" . }}.

  kubectl rollout status deployment/NAME -n {{ include "NAME.namespace" . }}
  helm test {{ .Release.Name }} -n {{ .Release.Namespace }}
  kubectl logs deployment/NAME -n {{ include "NAME.namespace" . }}
  kubectl get KINDS --all-namespaces
"""
_NOTES_ON_NAMESPACES: Final = """
{{- range .Values.namespaces }}

It works in the namespace {{ . }}, which must exist.
{{- end }}
"""
_NOTES_ON_DEFINITIONS: Final = """
{{- if not .Values.crds.install }}

The definitions of its kinds were not installed (crds.install): it waits until they are there.
{{- end }}
{{- if and .Values.uninstall.enabled (not .Values.uninstall.keepData) }}

Uninstalling the release deletes all objects of these kinds and their definitions.
{{- else }}

Uninstalling the release leaves the definitions and the objects of these kinds where they are.
{{- end }}
"""


def _notes(operator: Installation, choices: Choices) -> str:
    resources = [kind_of(controller.kind).resource for controller in operator.controllers]
    kinds = ",".join(dict.fromkeys(f"{one.plural}.{one.group}".rstrip(".") for one in resources))
    namespaces = _NOTES_ON_NAMESPACES if operator.namespaces or choices.namespaces else ""
    text = f"{_NOTES}{namespaces}{_NOTES_ON_DEFINITIONS if choices.definitions else ''}"
    return text.replace("NAME", operator.name).replace("KINDS", kinds)
