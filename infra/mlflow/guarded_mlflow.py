"""MLflow's server with a guard against other pages: `PYTHONPATH=infra/mlflow mlflow server --app-name guarded`.

MLflow checks the host (MLFLOW_SERVER_ALLOWED_HOSTS), but any page on another port of localhost, such as a notebook, may read
and change everything. Here, only the origins in MLFLOW_SERVER_CORS_ALLOWED_ORIGINS may.
"""

import os

from mlflow.server.fastapi_app import app as mlflow_app

from regrade.processes.web_guard import CONTAINED, OwnPagesOnly, WithHeaders, split_origins

ORIGINS = "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"

_guarded = OwnPagesOnly(mlflow_app, origins=split_origins(ORIGINS, os.environ.get(ORIGINS)))
app = WithHeaders(_guarded, CONTAINED)
