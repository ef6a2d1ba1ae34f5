"""The downloads at the foot of the page."""
