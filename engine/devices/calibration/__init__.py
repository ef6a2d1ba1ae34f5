"""How fast this machine is, measured in about three seconds: bandwidths, T(n), fixed costs."""
