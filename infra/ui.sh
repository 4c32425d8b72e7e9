#!/usr/bin/env bash
# Start the Prefect server, MLflow and the viewer on loopback, with the runs and answers of this checkout; Ctrl-C stops all.
set -euo pipefail
cd "$(dirname "$0")/.."
export DO_NOT_TRACK=1 HF_HUB_DISABLE_TELEMETRY=1 MLFLOW_DISABLE_TELEMETRY=true PREFECT_SERVER_ANALYTICS_ENABLED=false VLLM_NO_USAGE_STATS=1
export PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT=false
# A login, and only their own pages (docs/security.md).
export REGRADE_PREFECT_PORT=${REGRADE_PREFECT_PORT:-4200} REGRADE_MLFLOW_PORT=${REGRADE_MLFLOW_PORT:-5000} REGRADE_VIEW_PORT=${REGRADE_VIEW_PORT:-4300}
prefect=http://127.0.0.1:$REGRADE_PREFECT_PORT mlflow=http://127.0.0.1:$REGRADE_MLFLOW_PORT
export PREFECT_SERVER_UI_API_URL=$prefect/api
variables=$(.venv/bin/python -m infra.stack.login)
eval "$variables"
store=${MLFLOW_TRACKING_URI:-sqlite:///$PWD/mlflow.db}
{   .venv/bin/python -m infra.mlflow_upgrade "$store"
    .venv/bin/python -c 'import sys; from regrade.tracking.run_list import prepared_list; print("MLflow ", prepared_list(*sys.argv[1:]))' \
        "$store" "$mlflow" || echo "MLflow  $mlflow/?workflowType=machine_learning"
    export PYTHONPATH="infra/mlflow${PYTHONPATH:+:$PYTHONPATH}"
    exec .venv/bin/python -m mlflow server --host 127.0.0.1 --port "$REGRADE_MLFLOW_PORT" --workers 1 --app-name guarded \
        --backend-store-uri "$store" >mlflow-server.log 2>&1
} &
tracker=$!
.venv/bin/python -m regrade.cli.main view --port "$REGRADE_VIEW_PORT" --empty >viewer.log 2>&1 &
viewer=$!
trap 'kill "$tracker" "$viewer"' EXIT
echo "answers http://127.0.0.1:$REGRADE_VIEW_PORT"
printf 'Prefect %s, login: ' "$prefect"
.venv/bin/python -m infra.stack.login --shown
.venv/bin/python -m uvicorn --factory regrade.orchestration.server:create_app --host 127.0.0.1 --port "$REGRADE_PREFECT_PORT" --log-level warning
