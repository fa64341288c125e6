"""What the deployment files promise beyond being well-formed, which `make lint` checks."""

import re
from typing import Any

import pytest
import yaml

from app.__main__ import KEEP_ALIVE_S
from app.settings import Settings
from tests.conftest import ROOT

MANIFESTS = [
    document
    for file in sorted((ROOT / "docs" / "deploy").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]
DEPLOYMENTS = [each for each in MANIFESTS if each["kind"] == "Deployment"]
DEFAULTS = {name: field.default for name, field in Settings.model_fields.items()}
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


def _named(kind: str, name: str) -> dict[str, Any]:
    (found,) = [
        each for each in MANIFESTS if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


def test_every_kind_that_a_fleet_needs():
    assert {each["kind"] for each in MANIFESTS} == {
        "Deployment",
        "Service",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
        "NetworkPolicy",
    }


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda each: each["metadata"]["name"])
def test_pods_are_not_root_and_write_nothing(deployment: dict[str, Any]):
    spec = deployment["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert container["readinessProbe"]
        assert container["livenessProbe"]


def test_selectors_find_the_pods():
    for name in ("kvmath", "kvmath-valkey"):
        deployment, service = _named("Deployment", name), _named("Service", name)
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert service["spec"]["selector"].items() <= labels.items()
        policy = _named("NetworkPolicy", name)
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_a_pod_has_time_to_drain():
    spec = _named("Deployment", "kvmath")["spec"]["template"]["spec"]
    pause = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] > pause + DEFAULTS["shutdown_grace_s"]
    stop = COMPOSE["services"]["kvmath"]["stop_grace_period"]
    assert int(stop.removesuffix("s")) > DEFAULTS["shutdown_grace_s"]


@pytest.mark.parametrize(
    ("deployment", "service", "folder"),
    [
        ("kvmath", "kvmath", "/tmp"),  # where Python looks for one without TMPDIR
        ("kvmath-valkey", "valkey", "/data"),  # the image's own, without which it does not start
    ],
)
def test_there_is_a_folder_to_write_to_beside_the_read_only_root(
    deployment: str, service: str, folder: str
):
    spec = _named("Deployment", deployment)["spec"]["template"]["spec"]
    mounts = {each["mountPath"]: each["name"] for each in spec["containers"][0]["volumeMounts"]}
    folders = {each["name"] for each in spec["volumes"] if "emptyDir" in each}
    assert mounts[folder] in folders
    assert folder in [each.partition(":")[0] for each in COMPOSE["services"][service]["tmpfs"]]


def test_ports_and_probes_are_those_of_the_service():
    (container,) = _named("Deployment", "kvmath")["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": DEFAULTS["port"]}]
    for probe, path in {"startup": "/readyz", "readiness": "/readyz", "liveness": "/livez"}.items():
        assert container[f"{probe}Probe"]["httpGet"] == {"path": path, "port": "http"}
    (port,) = _named("Service", "kvmath")["spec"]["ports"]
    assert port["targetPort"] == "http"
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"PORT={DEFAULTS['port']} " in image
    assert "HOST=0.0.0.0 " in image


def test_keys_that_are_not_set_are_not_passed_on_as_empty():
    """An empty `KVMATH_API_KEYS` is refused; in compose a name without a value is passed on."""
    environment = COMPOSE["services"]["kvmath"]["environment"]
    assert "KVMATH_API_KEYS" in environment
    assert environment["KVMATH_API_KEYS"] is None


def test_the_image_runs_as_the_user_that_the_manifest_names():
    spec = _named("Deployment", "kvmath")["spec"]["template"]["spec"]
    user = re.search(
        r"^USER (\d+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert user is not None
    assert int(user[1]) == spec["securityContext"]["runAsUser"]


def test_compose_starts_two_replicas_a_store_and_a_proxy():
    services = COMPOSE["services"]
    assert services.keys() == {"kvmath", "valkey", "proxy"}
    assert services["kvmath"]["deploy"]["replicas"] == 2
    assert services["kvmath"]["environment"]["KVMATH_REDIS_URL"] == "redis://valkey:6379/0"
    assert "ports" not in services["kvmath"]  # only the proxy is reached from outside
    assert "ports" not in services["valkey"]
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


def test_the_proxy_takes_the_bodies_that_the_service_takes():
    proxy = COMPOSE["configs"]["proxy"]["content"]
    assert f"client_max_body_size {DEFAULTS['max_batch_bytes'] // 2**20}m;" in proxy
    times = re.findall(r"proxy_read_timeout (\d+)s;", proxy)
    assert len(times) == proxy.count("proxy_pass ")
    assert all(int(each) > DEFAULTS["request_timeout_s"] for each in times)


def test_an_idle_connection_outlives_a_proxys():
    # https://nginx.org/en/docs/http/ngx_http_upstream_module.html#keepalive_timeout
    assert KEEP_ALIVE_S > 60
    assert "keepalive_timeout" not in (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
