"""The vocabulary: types, contracts, registry, settings. Imports nothing else of ours."""
