"""The command `regrade trigger`: a run of a deployment, started and followed from CI."""
