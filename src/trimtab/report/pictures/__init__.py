"""The pictures of the page, each a function from report data to inline SVG."""
