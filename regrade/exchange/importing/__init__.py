"""Import the answers of other tools as answer sets; one file per format."""
