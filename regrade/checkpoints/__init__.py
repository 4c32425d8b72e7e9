"""Checkpoints of a training, evaluated by a callback or by a watching flow."""
