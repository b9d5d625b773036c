"""Layer 3: ways to learn without labels. One file each; it should read like its paper's abstract."""
