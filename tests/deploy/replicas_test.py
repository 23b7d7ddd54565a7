"""The Helm chart and the compose file for replicas: linted and rendered, and they name options, endpoints and files that exist.

    python3 tests/deploy/replicas_test.py SOURCE_DIR RECOLLECT PACKAGES_DIR

By Helm's own code, in a package from PyPI (helm-python-sdk; tests/e2e/pypi.py). Exits 77, and says what is not checked, where that
cannot be reached.
"""
import pathlib
import re
import shutil
import subprocess
import sys

source, recollect, packages = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
chart = source / "deploy/helm/recollect"
# Left out where the program is run: it would look for the cluster.
OF_CEPH = {"--store", "--ceph-conf", "--ceph-user"}


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


sys.path.insert(0, str(source / "tests/e2e"))
from pypi import go_on  # noqa: E402

go_on(packages, "the chart and the compose file for replicas")
import helm_python  # noqa: E402
import yaml  # noqa: E402
from helm_python import chart as library  # noqa: E402

class Failed(Exception):
    """What Helm says of values that it refuses."""


def render(values):
    """The objects by kind and name."""
    try:
        loaded = library.Chart.load(chart)
        loaded.validate_schema(loaded.merge_values(values))
        rendered = loaded.render(values, name="memory", namespace="books")
    except helm_python.HelmError as error:
        raise Failed(str(error)) from None
    texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
    objects = [o for text in texts for o in yaml.safe_load_all(text) if o is not None]
    return {(o["kind"], o["metadata"]["name"]): o for o in objects}


def lint(values):
    report = library.lint(chart, values, strict=True)
    found = [message for message in report["messages"] if message["severity"] > 1]  # 1: a remark
    check(report["total_charts_linted"] == 1 and not found and not report["errors"], f"helm lint: {report}")


def known_flags():
    text = "".join(subprocess.run([recollect, *verb, "--help"], check=True, capture_output=True, text=True).stdout
                   for verb in (["serve"], []))
    return set(re.findall(r"--[a-z][a-z-]+", text))


KNOWN = known_flags()


def check_arguments(arguments, where):
    check(arguments[0] == "serve", f"{where}: does not serve")
    for flag in (a for a in arguments if a.startswith("--")):
        check(flag in KNOWN, f"{where}: recollect serve has no {flag}")
    # The program reads the rest; the directory that it would open is not there.
    rest = [a for i, a in enumerate(arguments) if a not in OF_CEPH and (i == 0 or arguments[i - 1] not in OF_CEPH)]
    run = subprocess.run([recollect, *rest, "--model", "/no such model"], capture_output=True, text=True, check=False)
    missing = re.search(r"/etc/recollect/\S+", run.stderr)  # of the container
    check("/no such model" in run.stderr or missing, f"{where}: {run.stderr}")


def option(arguments, flag):
    return arguments[arguments.index(flag) + 1]


def check_objects(objects, values):
    name = "memory-recollect"
    grpc, http = (values.get("ports", {}).get(kind, port) for kind, port in (("grpc", 50051), ("http", 8080)))
    stateful = objects["StatefulSet", name]["spec"]
    pod = stateful["template"]["spec"]
    (container,) = pod["containers"]
    arguments = container["args"]
    check_arguments(arguments, "chart")
    namespace = values["ceph"].get("namespace")
    check(option(arguments, "--store") == "rados:" + values["ceph"]["pool"] + (f"/{namespace}" if namespace else ""), "chart: --store")
    check(stateful["replicas"] == values.get("replicas", 3), "chart: replicas")
    drain = int(option(arguments, "--drain-timeout"))
    check(drain == values.get("drainTimeoutSeconds", 30) < pod["terminationGracePeriodSeconds"], "chart: killed while it drains")

    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    check(ports == {"grpc": grpc, "http": http}, f"chart: ports {ports}")
    check(option(arguments, "--grpc-listen") == f"0.0.0.0:{grpc}", "chart: --grpc-listen")
    check(option(arguments, "--http-listen") == f"0.0.0.0:{http}", "chart: --http-listen")
    labels = stateful["template"]["metadata"]["labels"]
    for selector in (stateful["selector"]["matchLabels"], objects["Service", name]["spec"]["selector"],
                     objects["Service", f"{name}-grpc"]["spec"]["selector"],
                     objects["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"]):
        check(selector and selector.items() <= labels.items(), f"chart: {selector} selects no replica")
    headless = objects["Service", f"{name}-grpc"]["spec"]
    check(headless["clusterIP"] == "None" and headless["ports"][0]["targetPort"] == "grpc", "chart: the headless Service")
    check(stateful["serviceName"] == f"{name}-grpc", "chart: serviceName")
    check(objects["Service", name]["spec"]["ports"][0]["targetPort"] == "http", "chart: the Service for HTTP")

    routes = (source / "http/api/routes.cc").read_text()
    scheme = "HTTPS" if values.get("tlsSecret") else "HTTP"
    for probe, path in (("startupProbe", "/readyz"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        get = container[probe]["httpGet"]
        check(get == {"path": path, "port": "http", "scheme": scheme} and f'"{path}"' in routes, f"chart: {probe} {get}")

    volumes = {v["name"]: v for v in pod["volumes"]}
    mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
    check(set(mounts.values()) == set(volumes), f"chart: volumes {set(volumes)}, mounts {mounts}")
    for flag in ("--keys", "--tls-cert", "--tls-key", "--ceph-conf"):
        if flag in arguments:
            check(str(pathlib.PurePath(option(arguments, flag)).parent) in mounts, f"chart: nothing is mounted for {flag}")
    check(("--insecure" in arguments) == values.get("insecure", False), "chart: --insecure")
    check(("--keys" in arguments) == bool(values.get("keysSecret")), "chart: --keys")
    sources = volumes[mounts["/etc/ceph"]]["projected"]["sources"]
    config = sources[0]["configMap"]["name"]
    if existing := values["ceph"].get("existingConfigMap"):
        check(config == existing and not any(kind == "ConfigMap" for kind, _ in objects), "chart: existingConfigMap")
    else:
        text = objects["ConfigMap", config]["data"]["ceph.conf"]
        check(text.strip() == values["ceph"]["conf"].strip(), f"chart: ceph.conf {text!r}")
    keyrings = [s["secret"] for s in sources[1:]]
    user = values["ceph"].get("user", "recollect")
    check([k["name"] for k in keyrings] == [s for s in [values["ceph"].get("keyringSecret")] if s], f"chart: keyrings {keyrings}")
    check(all(k["items"][0]["path"] == f"ceph.client.{user}.keyring" for k in keyrings), f"chart: keyrings {keyrings}")
    check(option(arguments, "--ceph-user") == user, "chart: --ceph-user")
    check(container["securityContext"]["readOnlyRootFilesystem"] and pod["securityContext"]["runAsNonRoot"], "chart: rights")


CONF = "[global]\nmon host = 10.0.0.1,10.0.0.2\n\n[client]\nrados osd op timeout = 30\n"
SMALL = {"ceph": {"pool": "recollect", "conf": CONF}, "insecure": True}
FULL = {"replicas": 5, "ceph": {"pool": "p", "namespace": "n", "existingConfigMap": "cluster", "user": "books", "keyringSecret": "ring"},
        "keysSecret": "keys", "tlsSecret": "tls", "ports": {"grpc": 6000, "http": 6001}, "drainTimeoutSeconds": 90,
        "landmarkBudget": "8GiB", "extraArgs": ["--dtype", "fp32"], "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}], "nodeSelector": {"cpu": "genoa"},
        "service": {"type": "LoadBalancer", "annotations": {"a": "b"}}, "image": {"repository": "r/recollect", "tag": "1"}}
REFUSED = (
    ({"insecure": True, "ceph": {"conf": CONF, "pool": ""}}, "ceph.pool: empty"),
    ({"insecure": True, "ceph": {"pool": "p"}}, "ceph.conf: empty"),
    ({"insecure": True, "ceph": {"pool": "p", "conf": CONF, "existingConfigMap": "c"}}, "both are set"),
    ({"ceph": {"pool": "p", "conf": CONF}}, "keysSecret: empty"),
    ({**SMALL, "ports": {"grpc": 7000, "http": 7000}}, "both 7000"),
    ({**SMALL, "replica": 3}, "replica"),  # a slip of the pen
    ({**SMALL, "replicas": 0}, "replicas"),
    ({**SMALL, "ceph": {**SMALL["ceph"], "user": "client.recollect"}}, "user"),
    ({**SMALL, "landmarkBudget": "8 GB"}, "landmarkBudget"),
)


def check_chart():
    for values in (SMALL, FULL):
        lint(values)
        check_objects(render(values), values)
    for values, message in REFUSED:
        try:
            render(values)
        except Failed as error:
            check(message in str(error), f"chart: of {values} it says {error}, expected {message!r}")
            continue
        sys.exit(f"FAILED: chart: {values} is taken, expected an error with {message!r}")


def check_compose():
    services = yaml.safe_load((source / "deploy/compose-replicas.yaml").read_text())["services"]
    check(set(services) == {"recollect", "balancer", "ask"}, f"compose-replicas.yaml: services {set(services)}")
    replica = services["recollect"]
    arguments = [re.sub(r"\$\{\w+:\?[^}]*\}", "recollect", a) for a in replica["command"]]
    check_arguments(arguments, "compose-replicas.yaml")
    check(replica["deploy"]["replicas"] > 1 and "ports" not in replica, "compose-replicas.yaml: replicas share a port of this machine")
    check((source / "deploy" / replica["build"]["context"] / replica["build"]["dockerfile"]).is_file(), "compose-replicas.yaml: dockerfile")
    for service in services.values():
        for port in service.get("ports", ()):
            check(port.startswith("127.0.0.1:"), f"compose-replicas.yaml: {port} is open to other machines")
    config = services["balancer"]["volumes"][0].split(":")[0]
    balancer = (source / "deploy" / config).read_text()
    port = option(arguments, "--http-listen").rsplit(":", 1)[1]
    check(re.search(rf"^ *server-template replica \d+ recollect:{port}$", balancer, re.MULTILINE), "haproxy.cfg: server-template")
    check(re.search(r"httpchk GET /readyz$", balancer, re.MULTILINE), "haproxy.cfg: httpchk")
    listens = re.search(r"bind :(\d+)$", balancer, re.MULTILINE).group(1)
    check(services["balancer"]["ports"] == [f"127.0.0.1:{port}:{listens}"], "compose-replicas.yaml: the balancer's port")
    grpc = option(arguments, "--grpc-listen").rsplit(":", 1)[1]
    check(services["ask"]["environment"]["RECOLLECT_SERVER"] == f"dns:///recollect:{grpc}", "compose-replicas.yaml: RECOLLECT_SERVER")
    haproxy = shutil.which("haproxy")
    if haproxy is None:
        print("no haproxy (Debian: haproxy): deploy/replicas/haproxy.cfg is NOT parsed")
    else:
        subprocess.run([haproxy, "-c", "-f", source / "deploy" / config], check=True)


check_chart()
check_compose()
print("deploy: the chart is linted and rendered; replicas name what exists")
