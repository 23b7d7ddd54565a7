"""What deploy/ has for containers and monitoring can be read, and names files and options that exist.

    python3 tests/deploy/monitoring_test.py SOURCE_DIR RECOLLECT

That queries name metrics which exist: tests/e2e/metrics_e2e_test.cc. Exits 77, and says what is not checked, where there is no PyYAML.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source, recollect = pathlib.Path(sys.argv[1]), sys.argv[2]
deploy = source / "deploy"
try:
    import yaml
except ImportError:
    print("SKIP: no PyYAML (Debian: python3-yaml): the YAML files of deploy/ are NOT read")
    sys.exit(77)


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def check_containerfile():
    text = (deploy / "Containerfile").read_text()
    check(not re.search(r"^FROM (?!debian:)", text, re.MULTILINE), "Containerfile: built from something other than Debian")
    instructions = dict(re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", text, re.MULTILINE))
    check(json.loads(instructions["ENTRYPOINT"]) == ["recollect"], "Containerfile: ENTRYPOINT")
    serve, *arguments = json.loads(instructions["CMD"])
    check(serve == "serve", "Containerfile: CMD does not serve")
    known = subprocess.run([recollect, "serve", "--help"], check=True, capture_output=True, text=True).stdout
    known += subprocess.run([recollect, "--help"], check=True, capture_output=True, text=True).stdout
    for flag in (argument for argument in arguments if argument.startswith("--")):
        check(re.search(rf"{flag}\b", known), f"Containerfile: recollect serve has no {flag}")
    exposed = set(re.search(r"^EXPOSE (.*)$", text, re.MULTILINE).group(1).split())
    listens = {value.rsplit(":", 1)[1] for value in arguments if re.fullmatch(r"[\d.]+:\d+", value)}
    check(exposed == listens, f"Containerfile: exposes {exposed} and listens on {listens}")
    for script in re.findall(r"\btools/\w+", text):
        check((source / script).exists(), f"Containerfile: runs {script}, which does not exist")
    return exposed


def check_compose(exposed):
    compose = yaml.safe_load((deploy / "compose.yaml").read_text())
    services = compose["services"]
    check(set(services) == {"recollect", "prometheus", "grafana"}, f"compose.yaml: services {set(services)}")
    for name, service in services.items():
        for port in service["ports"]:
            check(port.startswith("127.0.0.1:"), f"compose.yaml: {name}: {port} is open to other machines")
        for volume in service.get("volumes", ()):
            there = volume.split(":")[0]
            known = (deploy / there).is_file() if there.startswith(".") else there in compose["volumes"]
            check(known, f"compose.yaml: {name}: no {there}")
    build = services["recollect"]["build"]
    check((deploy / build["context"] / build["dockerfile"]).is_file(), "compose.yaml: the container file is not there")
    published = {port.rsplit(":", 1)[1] for port in services["recollect"]["ports"]}
    check(published == exposed, f"compose.yaml: publishes {published}, the container exposes {exposed}")
    prometheus = yaml.safe_load((deploy / "prometheus/prometheus.yaml").read_text())
    for job in prometheus["scrape_configs"]:
        for target in (target for config in job["static_configs"] for target in config["targets"]):
            host, port = target.split(":")
            check(host in services and port in exposed, f"prometheus.yaml: nobody answers at {target}")
            check(host in services["recollect"]["environment"]["RECOLLECT_HTTP_HOSTS"].split(","), f"compose.yaml: {host} is refused as Host")
    check(all((deploy / "prometheus" / rules).is_file() for rules in prometheus["rule_files"]), "prometheus.yaml: rule_files")
    source_url = yaml.safe_load((deploy / "grafana/datasource.yaml").read_text())["datasources"][0]["url"]
    check(re.fullmatch(r"http://prometheus:9090", source_url), f"datasource.yaml: {source_url}")
    folder = yaml.safe_load((deploy / "grafana/dashboards.yaml").read_text())["providers"][0]["options"]["path"]
    check(any(f":{folder}/" in volume for volume in services["grafana"]["volumes"]), f"dashboards.yaml: nothing lies in {folder}")


def check_alerts():
    groups = yaml.safe_load((deploy / "prometheus/alerts.yaml").read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        check(rule["annotations"]["summary"] and rule["labels"]["severity"] in ("page", "ticket"), f"alerts.yaml: {rule['alert']}")
    promtool = shutil.which("promtool")
    if promtool is None:
        print("no promtool (Debian: prometheus): expressions of alerts are NOT parsed and tried")
        return
    subprocess.run([promtool, "check", "config", str(deploy / "prometheus/prometheus.yaml")], check=True)
    cases = pathlib.Path(__file__).parent / "alerts_test.yaml"
    asked = {case["alertname"] for test in yaml.safe_load(cases.read_text())["tests"] for case in test["alert_rule_test"] if case.get("exp_alerts")}
    check(asked == {rule["alert"] for group in groups for rule in group["rules"]}, f"alerts_test.yaml: of the alerts only {sorted(asked)} are seen to fire")
    subprocess.run([promtool, "test", "rules", str(cases)], check=True)
    check_dashboard(promtool)


def check_dashboard(promtool):
    """Its queries can be parsed; that they name metrics which exist: tests/e2e/metrics_e2e_test.cc."""
    def queries(panels):
        for panel in panels:
            yield from (target["expr"] for target in panel.get("targets", ()))
            yield from queries(panel.get("panels", ()))

    found = list(queries(json.loads((deploy / "grafana/recollect.json").read_text())["panels"]))
    check(found, "recollect.json: no queries")
    # Grafana puts values in place of its variables.
    rules = [{"record": "x", "labels": {"i": str(i)}, "expr": re.sub(r"\$__\w+", "5m", query)} for i, query in enumerate(found)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        file.flush()
        subprocess.run([promtool, "check", "rules", file.name], check=True)


check_compose(check_containerfile())
check_alerts()
print("deploy: containers, Prometheus and Grafana name what exists")
