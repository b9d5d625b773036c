"""Networks: encoders, predictors, decoders, heads."""
