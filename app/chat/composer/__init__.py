"""The composer, where a message is written: text and files, counted, kept, checked and sent."""
