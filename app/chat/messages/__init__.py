"""The messages of a conversation: a column of rows that stays where the reader is."""
