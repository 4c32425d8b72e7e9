-- Create a role and a database for each server. Postgres' image runs this at its first start, `make stack` at each start.
-- The passwords come from the environment, so that no process list shows them.
\getenv prefect_password PREFECT_DATABASE_PASSWORD
\getenv mlflow_password MLFLOW_DATABASE_PASSWORD

SELECT format('CREATE ROLE %I LOGIN PASSWORD %L', name, password)
FROM (VALUES ('prefect', :'prefect_password'), ('mlflow', :'mlflow_password')) AS wanted (name, password)
WHERE name NOT IN (SELECT rolname FROM pg_roles) \gexec

SELECT format('CREATE DATABASE %I OWNER %I', name, name)
FROM (VALUES ('prefect'), ('mlflow')) AS wanted (name)
WHERE name NOT IN (SELECT datname FROM pg_database) \gexec

REVOKE CONNECT ON DATABASE prefect, mlflow FROM PUBLIC;
