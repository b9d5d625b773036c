"""The linear probe of the paper: a grid of heads trained at once."""

from openjepa.evaluation.probes.linear import linear as linear  # registers itself
