"""Low-rank projections: the layer, the rank map, the checkpoint format, its transformers plug-in, and back again."""
