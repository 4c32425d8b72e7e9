"""Score stored answers, and compare two scorings of the same answers."""
