"""Speed of this machine, as ratios within one run."""
