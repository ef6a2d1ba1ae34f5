"""The left area of the window: the conversations there are, listed, found, put in order."""
