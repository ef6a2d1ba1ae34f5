"""Drafting beside verifying in virtual time: the paper's machine, the serial loop and this one."""
