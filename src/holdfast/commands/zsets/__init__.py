"""Commands on sorted sets, including those on places (GEO)."""
