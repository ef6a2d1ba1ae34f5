"""Training of drafts: feature heads (Dovetail's, EAGLE's, EAGLE-3's) and small models.

One pass: conversations -> answers and hidden states of the target, recorded on disk once ->
batches -> training, with checkpoints -> the folder of a draft. `training.train` runs it.
"""
