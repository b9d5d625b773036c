"""Layer 4: watchers. Each yields ("area/name", value) and changes nothing."""
