"""Users, their rules, and the check of a command against them. Passwords do not leave this room."""
