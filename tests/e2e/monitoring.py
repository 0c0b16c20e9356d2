"""Runs a Prometheus server on two pools: every query of the board must find both, and a lost member must be an alert.

usage: monitoring.py MONITORING DIR ADDRESS ADDRESS URI URI
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

monitoring, directory, *rest = sys.argv[1:]
addresses, uris = rest[:2], rest[2:]
PATIENCE_S = 120
# What Grafana puts in place of its variables.
VARIABLES = {"$__rate_interval": "10s", "$pool": ".*", "$volume": ".*"}


def wait_until(what, found):
    end = time.monotonic() + PATIENCE_S
    while True:
        result = found()
        if result:
            return result
        if time.monotonic() > end:
            sys.exit(f"{what} takes too long")
        time.sleep(0.2)


def copy():
    # In small requests: latencies of members are those of small ones.
    for uri in uris:
        subprocess.run(["nbdcopy", "--request-size=4096", f"{directory}/in", uri], check=True)
        subprocess.run(["nbdcopy", "--request-size=4096", uri, "null:"], check=True)


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
with open(f"{directory}/prometheus.yml", "w") as config:
    targets = ", ".join(f'"{address}"' for address in addresses)
    config.write(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: ['{monitoring}/alerts.yml']\n"
        f"scrape_configs: [{{job_name: sinew, static_configs: [{{targets: [{targets}]}}]}}]\n"
    )
server = subprocess.Popen(
    ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb",
     f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
)


def query(expression):
    """The series that an expression has now."""
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return []  # it is starting
        sys.exit(f"{expression}: {error.read().decode()}")
    except OSError:
        return []  # not listening yet


def pools(expression):
    return {series["metric"].get("pool") for series in query(expression)}


try:
    wait_until("the first scrape", lambda: len(query('up{job="sinew"} == 1')) == 2)
    copy()
    with open(f"{monitoring}/grafana-dashboard.json") as board:
        panels = json.load(board)["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert len(expressions) > 20, expressions
    for expression in expressions:
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        wait_until(f"both pools in: {expression}", lambda: pools(expression) == {"t", "u"})
    requests = 'sum by (pool) (sinew_volume_request_duration_seconds_count{op="read"})'
    wait_until("reads of both pools", lambda: pools(f"{requests} > 0") == {"t", "u"})
    quantile = "histogram_quantile(0.5, sum by (le) (sinew_volume_request_duration_seconds_bucket{op=\"write\"}))"
    assert 0 < float(query(quantile)[0]["value"][1]) < 10, query(quantile)
    failing = [s for s in query("ALERTS") if s["metric"]["alertname"] != "SinewServerDown"]
    assert not failing, failing
    os.unlink(f"{directory}/m2")
    for alert in ("SinewPoolAtRisk", "SinewMemberOut"):
        wait_until(alert, lambda: pools(f'ALERTS{{alertname="{alert}"}}') == {"t"})
    print(f"{len(expressions)} queries")
finally:
    server.terminate()
    server.wait()
