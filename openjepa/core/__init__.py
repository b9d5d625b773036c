"""The vocabulary: types, contracts, registry, settings. Imports no other room."""
