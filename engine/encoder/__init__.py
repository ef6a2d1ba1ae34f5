"""Models that embed: BERT and its kind, small encoders that read a text at once and write nothing.

They are computed with numpy: a text takes a few products of matrices, no cache and no draft.
"""
