"""People's labels of answers: sample, sheet, and the figures that they correct."""
