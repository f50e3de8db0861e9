"""The tutorials' modules."""
