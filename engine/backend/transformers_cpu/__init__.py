"""Whole models on the classes of the transformers library: families without a decoder of ours."""
