"""Pure tensor mathematics: no modules, no files, no progress bars."""
