"""Graphics cards: what drivers, the bus and torch tell of them."""
