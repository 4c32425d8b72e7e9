"""Write the dashboards as JSON: `python -m infra.grafana`. Grafana reads them from this folder (infra/compose.monitoring.yaml)."""

import json
from pathlib import Path
from typing import Any

from infra.grafana.panels import DASHBOARDS, Dashboard, Panel

FOLDER = Path(__file__).parent
WIDTH, HEIGHT = 12, 8
"""Size of a panel; a page is 24 wide."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def document(dashboard: Dashboard) -> dict[str, Any]:
    """Return the dashboard in Grafana's format (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/)."""
    return {
        "uid": f"regrade-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["regrade"],
        "timezone": "browser",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source_variable(), _instance_variable(dashboard.selector)]},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }


def text(dashboard: Dashboard) -> str:
    """Return the content of the dashboard's file."""
    return json.dumps(document(dashboard), indent=1) + "\n"


def path(dashboard: Dashboard) -> Path:
    """Return the dashboard's file."""
    return FOLDER / f"{dashboard.name}.json"


def _source_variable() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def _instance_variable(metric: str) -> dict[str, Any]:
    query = f"label_values({metric}, instance)"
    return {
        "name": "instance",
        "label": "Machine",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "instance"},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi"},
        },
        "targets": [
            {"refId": "A", "datasource": SOURCE, "expr": panel.query, "legendFormat": panel.legend}
        ],
    }


if __name__ == "__main__":
    for dashboard in DASHBOARDS:
        path(dashboard).write_text(text(dashboard))
        print(path(dashboard))
