"""A database as an older MLflow left it."""

import os
import subprocess
import sys
from collections.abc import Mapping

DOWNGRADE = """
import sys
from pathlib import Path
import mlflow
from alembic import command
from alembic.config import Config
config = Config()
config.set_main_option("script_location", str(Path(mlflow.__file__).parent / "store/db_migrations"))
config.set_main_option("sqlalchemy.url", sys.argv[1])
command.downgrade(config, "-1")
"""


def one_revision_back(uri: str, environment: Mapping[str, str] = os.environ) -> None:
    """Downgrade the schema of a database by one revision, with its data."""
    command = [sys.executable, "-c", DOWNGRADE, uri]
    subprocess.run(command, env=dict(environment), check=True)
