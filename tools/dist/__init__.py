"""Makes of the built programs what a release consists of (`make dist`): see __main__.py."""
