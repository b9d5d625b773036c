"""Layer 3: other people's file layouts, as key maps. Needs none of their packages."""
