"""The models on this computer, on the hub and on servers: choosing, finding, downloading."""
