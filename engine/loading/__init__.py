"""From the wish to load a model to one that is ready to answer, in one direction:

`inspection` looks at the files, `planned_load` has the planner place them, `devices` opens what the
plan needs, `load` builds the models there with `decoder_builder` and makes a `LoadedPair` of them.
"""
