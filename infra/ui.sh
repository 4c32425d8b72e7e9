#!/usr/bin/env bash
# Start the Prefect server and MLflow on loopback, with the runs of this checkout; Ctrl-C stops both.
set -euo pipefail
cd "$(dirname "$0")/.."
export DO_NOT_TRACK=1 HF_HUB_DISABLE_TELEMETRY=1 MLFLOW_DISABLE_TELEMETRY=true PREFECT_SERVER_ANALYTICS_ENABLED=false VLLM_NO_USAGE_STATS=1
export PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT=false
store=${MLFLOW_TRACKING_URI:-sqlite:///$PWD/mlflow.db}
{   .venv/bin/python -m infra.mlflow_upgrade "$store"
    exec .venv/bin/mlflow server --host 127.0.0.1 --port 5000 --backend-store-uri "$store" >mlflow-server.log 2>&1
} &
mlflow=$!
trap 'kill "$mlflow"' EXIT
echo "MLflow  http://127.0.0.1:5000/?workflowType=machine_learning"
echo "Prefect http://127.0.0.1:4200"
.venv/bin/prefect server start --host 127.0.0.1 --port 4200
