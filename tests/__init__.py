"""Makes `tests` one package, so that no other package of that name can shadow it."""
