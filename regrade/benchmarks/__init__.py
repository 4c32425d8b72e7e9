"""One benchmark a file: source, prompt, default scorer, version, paper."""
