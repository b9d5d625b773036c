"""Layer 3: functions that return matplotlib figures; callers save them."""
