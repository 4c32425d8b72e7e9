"""Two answer sets side by side: are they comparable, what changed, and could chance have done it?"""
