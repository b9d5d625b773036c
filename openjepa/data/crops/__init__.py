"""What is cut out of an image, and how its colours change."""
