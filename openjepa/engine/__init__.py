"""Layer 1: what makes a method train. Knows core, knows no method by name."""
