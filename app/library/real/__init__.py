"""The hub as it is: worker processes, disks, the planner, the keyring."""
