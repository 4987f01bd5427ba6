"""A shop whose carts are sessions and whose catalogue is cached. It needs no other database."""
