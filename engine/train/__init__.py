"""Training of drafts: feature heads (Dovetail's, EAGLE's, EAGLE-3's) and distilled small models.

A thread runs the target over conversations and hands its features to the trainer through a short
queue; nothing but checkpoints touches the disk.
"""
