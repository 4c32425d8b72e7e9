"""Answer repositories, on the Hub or in a folder, and the spool of rows not published yet."""
