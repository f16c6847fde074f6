"""The options of `ray start`: what the container or the group may use, and what the user says instead."""

from typing import Any

import pytest

from controllers.workergroups.ray_start import common_params, resource_options, start_command


def command(
    params: dict[str, str] | None = None,
    resources: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    **container: dict[str, Any],
) -> str:
    return start_command("ray start", params or {}, container, resources=resources or {}, labels=labels or {})


@pytest.mark.parametrize(
    ("limits", "requests", "options"),
    [
        ({}, {}, ""),
        ({"cpu": "1500m"}, {"cpu": "7"}, "--num-cpus=2"),
        ({}, {"cpu": "2500m"}, "--num-cpus=3"),
        ({"cpu": "0"}, {"cpu": "1"}, "--num-cpus=1"),
        ({"memory": "1Gi"}, {"memory": "2Gi"}, "--memory=1073741824"),
        ({}, {"memory": "2Gi"}, ""),
        ({}, {"nvidia.com/gpu": "1"}, ""),
        ({"nvidia.com/gpu": "2"}, {}, "--num-gpus=2"),
        ({"nvidia.com/gpu": "2", "amd.com/gpu": "1"}, {}, "--num-gpus=1"),
        ({"nvidia.com/gpu": "2", "amd.com/gpu": "0"}, {}, "--num-gpus=2"),
        ({"google.com/tpu": "4"}, {}, "--resources='{\"TPU\":4}'"),
        ({"aws.amazon.com/neuroncore": "2"}, {}, "--resources='{\"neuron_cores\":2}'"),
        ({"google.com/tpu": "4", "aws.amazon.com/neuroncore": "2"}, {}, "--resources='{\"neuron_cores\":2}'"),
        ({"google.com/tpu": "4", "aws.amazon.com/neuroncore": "0"}, {}, "--resources='{\"TPU\":4}'"),
        ({"example.com/fpga": "4"}, {}, ""),
    ],
)
def test_ray_gets_the_resources_of_its_container(
    limits: dict[str, str], requests: dict[str, str], options: str
) -> None:
    assert command(limits=limits, requests=requests) == f"ray start {options}"


@pytest.mark.parametrize(
    ("given", "limits", "options"),
    [
        ({"num-cpus": "0"}, {"cpu": "2"}, "--num-cpus=0"),
        ({"num-gpus": "0"}, {"nvidia.com/gpu": "2"}, "--num-gpus=0"),
        ({"memory": "5"}, {"memory": "2Gi"}, "--memory=5"),
        ({"resources": "'{\"a\":1}'"}, {}, "--resources='{\"a\":1}'"),
        ({"resources": "'{\"a\":1}'"}, {"google.com/tpu": "4"}, '--resources=\'{"a":1.0,"TPU":4}\''),
        ({"resources": '"{\\"a\\":1}"'}, {"google.com/tpu": "4"}, '--resources="{\\"a\\":1}"'),
        ({"resources": ' "{"a":1.5}" '}, {"google.com/tpu": "4"}, '--resources=\'{"a":1.5,"TPU":4}\''),
        ({"resources": 'X{"a":1}X'}, {"google.com/tpu": "4"}, '--resources=X{"a":1}X'),
        ({"resources": '`{"a":1}`'}, {"google.com/tpu": "4"}, '--resources=\'{"a":1.0,"TPU":4}\''),
        (
            {"resources": "'{\"neuron_cores\":1}'"},
            {"google.com/tpu": "4"},
            "--resources='{\"neuron_cores\":1}'",
        ),
        ({"resources": "'{\"a\":true}'"}, {"google.com/tpu": "4"}, "--resources='{\"a\":true}'"),
    ],
)
def test_resource_options_of_the_user_win(
    given: dict[str, str], limits: dict[str, str], options: str
) -> None:
    assert command(given, limits=limits) == f"ray start {options}"


@pytest.mark.parametrize(
    ("resources", "options"),
    [
        ({"CPU": "1500m"}, {"num-cpus": "2"}),
        ({"cpu": 3, "Memory": "1Ki"}, {"num-cpus": "3", "memory": "1024"}),
        ({"CPU": "0"}, {"num-cpus": "0"}),
        ({"GPU": "1", "nvidia.com/gpu": "2"}, {"num-gpus": "3"}),
        ({"GPU": "0"}, {}),
        (
            {"TPU": "4", "google.com/tpu": "8", "aws.amazon.com/neuroncore": "1500m", "b": 1, "a": "2"},
            {"resources": '\'{"TPU":8,"a":2,"b":1,"neuron_cores":2}\''},
        ),
        ({"Mine": "1"}, {"resources": "'{\"Mine\":1}'"}),
    ],
)
def test_resources_of_a_group_become_options(resources: dict[str, Any], options: dict[str, str]) -> None:
    assert resource_options(resources) == options


def test_resources_of_a_group_override_the_container_and_the_options() -> None:
    given = {"num-cpus": "7", "num-gpus": "1"}
    assert command(given, {"CPU": "2"}, limits={"memory": "1Gi"}) == "ray start --num-cpus=2 --num-gpus=1"


def test_ray_gets_the_labels_of_a_group_unless_an_option_sets_them() -> None:
    labels = {"zone": "b", "pool": "a"}
    assert command(labels=labels) == "ray start --labels=pool=a,zone=b"
    assert command({"labels": "mine=1"}, labels=labels) == "ray start --labels=mine=1"


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("no-monitor", "true", "--no-monitor"),
        ("no-monitor", "True", "--no-monitor"),
        ("no-monitor", "FALSE", ""),
        ("log-color", "false", "--log-color=false"),
        ("log-color", "True", "--log-color=True"),
        ("include-dashboard", "true", "--include-dashboard=true"),
        ("log-color", "auto", "--log-color=auto"),
        ("a", "", "--a="),
    ],
)
def test_a_switch_has_no_value_and_is_left_out_if_disabled(name: str, value: str, option: str) -> None:
    assert command({name: value}) == f"ray start {option}"


def test_only_block_overrides_the_given_common_options() -> None:
    assert common_params({}, {"address": "a"}) == {
        "metrics-export-port": "8080",
        "dashboard-agent-listen-port": "52365",
        "address": "a",
        "block": "true",
    }
    given = {"metrics-export-port": "1", "dashboard-agent-listen-port": "2", "address": "b", "block": "false"}
    assert common_params(given, {"address": "a"}) == {**given, "block": "true"}
