#!/usr/bin/env bash
# Dump the databases of Prefect and MLflow if their packages changed since the last dump. Compose runs this before each start.
# Variables: PGHOST, PGUSER, PGPASSWORD of the superuser; BACKUPS: folder for the dumps; PACKAGES: list of pinned packages.
# The comment on a database names the package for which it was dumped: a database that was restored has none.
set -euo pipefail
ask() { psql --no-psqlrc --tuples-only --no-align --set ON_ERROR_STOP=1 --dbname "$1" --command "$2"; }
for database in prefect mlflow; do
    package=$(grep -oE "^$database==[0-9A-Za-z.+-]+" "$PACKAGES")
    known=$(ask "$database" "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = '$database'")
    tables=$(ask "$database" "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
    if [ "$tables" != 0 ] && [ "$known" != "$package" ]; then
        file=$BACKUPS/$(date --utc +%Y%m%dT%H%M%SZ)-$database-before-${package/==/-}.dump
        pg_dump --format=custom --dbname "$database" --file "$file.partial"
        mv "$file.partial" "$file"
        echo "wrote $file"
    fi
    ask "$database" "COMMENT ON DATABASE $database IS '$package'"
done
