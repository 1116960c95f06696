"""The alert rules, the dashboard and the guide speak of metrics that there are."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from assetsync.cli.entry import run

FOLDER = Path(__file__).parents[2] / "systemd" / "monitoring"
GUIDE = Path(__file__).parents[2] / "assetsync" / "guide" / "metrics.md"
RULES = FOLDER / "assetsync.rules.yml"
DASHBOARD = FOLDER / "assetsync.dashboard.json"
# What Prometheus itself adds.
GIVEN = {"up"}
WORDS = {
    "by", "on", "and", "or", "unless", "sum", "min", "max", "rate", "increase", "time", "histogram_quantile",
    "min_over_time", "changes", "site", "le", "state", "result", "reason", "how", "job", "exported_job", "mode",
    "label_values", "version",
}  # fmt: skip


def named(expression: str) -> set[str]:
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
    return set(re.findall(r"(?<![\w$.])[a-zA-Z_][\w]*", bare)) - WORDS - GIVEN


@pytest.fixture
def exposition(shown) -> str:
    """Everything that a process exports, also what is absent without a failed upload or a pause."""
    world = shown.world
    world.write("a", b"content")
    world.service.script.append("lost_after")
    world.scan_and_send()
    world.live(200)
    world.scan()
    said = {"start": world.ledger.start_no, "since": 0, "reason": "key_refused", "detail": "x"}
    world.ledger.set_fact("paused", json.dumps(said))
    return shown.get("/metrics").body.decode()


@pytest.fixture
def exported(exposition) -> set[str]:
    return {line.split("{")[0] for line in exposition.splitlines() if not line.startswith("#")}


def expressions() -> list[str]:
    rules = yaml.safe_load(RULES.read_text("utf-8"))
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    board = json.loads(DASHBOARD.read_text("utf-8"))
    found += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return found + [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]


def test_every_required_metric_is_exported(exported):
    asked = set().union(*map(named, expressions()))
    assert len(asked) > 20
    assert asked - exported == set()


def test_guide_lists_exactly_all_series(exposition):
    made = {}
    for family in text_string_to_metric_families(exposition):
        labels = {label for sample in family.samples for label in sample.labels} - {"site", "le"}
        made[family.name + ("_total" if family.type == "counter" else "")] = labels
    rows = [line.split("|")[1] for line in GUIDE.read_text("utf-8").splitlines() if line.startswith("| `")]
    listed = re.findall(r"`(\w+)(?:\{(\w+)\})?`", "".join(rows))
    assert {name: {label} - {""} for name, label in listed} == made


def test_every_alert_has_summary_and_remedy():
    rules = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    for rule in rules:
        assert rule["alert"].startswith("Assetsync")
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"].keys() == {"summary", "description"}
    assert len({rule["alert"] for rule in rules}) == len(rules)


def test_commands_of_alerts_name_the_site():
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    told = " ".join(rule["annotations"]["description"] for group in groups for rule in group["rules"])
    codes = re.findall("`([^`]+)`", told.replace("{{ $labels.site }}", "hq"))
    commands = [shlex.split(code)[1:] for code in codes if code.startswith("assetsync ")]
    assert ["status", "--site", "hq"] in commands
    for words in commands:
        assert words[words.index("--site") + 1] == "hq"
        # An option that the command lacks is an error before the help is shown.
        assert run([*words, "--help"]) == 0
    for code in (code for code in codes if code.startswith("systemctl ")):
        assert re.fullmatch(r"systemctl restart ('assetsync@\*'|assetsync@hq)", code)


def test_panels_have_unique_ids_and_places():
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("unreachable", "AssetsyncOutage"), ("key_refused", "AssetsyncKeyRefused")],
)
def test_refused_key_is_no_transient_outage(tmp_path, reason, expected):
    """Two hours of a pause fire the one alert that belongs to its reason."""
    series = {
        f'assetsync_paused{{site="hq",reason="{reason}"}}': "1x200",
        'assetsync_paused_seconds{site="hq"}': "0+60x200",
    }
    expect_firing(tmp_path, series, "120m", expected)


@pytest.mark.parametrize("label", ["job", "exported_job"])
def test_day_without_scan_fires_under_both_labels(tmp_path, label):
    """Prometheus renames the label `job` of a series unless the configuration honors it."""
    series = {f'assetsync_job_last_success_timestamp_seconds{{site="hq",{label}="rescan"}}': "0x2000"}
    expect_firing(tmp_path, series, "27h", "AssetsyncNoScan")


def test_process_that_restarts_repeatedly_fires(tmp_path):
    """The watchdog ends it after a few minutes, each time before `up` has been 0 for long."""
    starts = " ".join(f"{start}x9" for start in range(0, 6000, 600))
    series = {'process_start_time_seconds{job="assetsync",site="hq"}': starts}
    expect_firing(tmp_path, series, "90m", "AssetsyncRestarts")


def expect_firing(tmp_path, series: dict[str, str], at: str, alert: str) -> None:
    """Expect that this alert alone fires at a time, with these values a minute apart."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool is installed: apt-get install prometheus")
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'sum by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": at,
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}],
            }
        ],
    }
    file = tmp_path / "case.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_rules_and_metrics(shown):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool is installed: apt-get install prometheus")
    done = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = shown.get("/metrics").body
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
