"""Images: where they come from, how they are decoded, cropped and put into batches."""
