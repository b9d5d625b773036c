"""Tensors in, tensors out: the small pieces that networks are made of."""
