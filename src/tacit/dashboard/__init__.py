"""Pages and their JSON twins."""
