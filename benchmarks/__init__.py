"""What the figures in the documentation are measured with; each is one command."""
