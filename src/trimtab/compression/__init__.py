"""From calibration windows to a compressed model in memory: statistics, factorizers, allocators, plan."""
