"""Dashboards of Grafana, written by `python -m infra.grafana`."""
