"""The slow, portable path: decoder blocks in torch operators on the CPU, fp32."""
