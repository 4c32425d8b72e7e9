"""Where answers and scores are kept: the Hub or a folder, and the spool in front of them."""
