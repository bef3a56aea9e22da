"""The Console and the demonstration space; both speak to the core's use cases alone."""
