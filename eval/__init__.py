"""The evaluation workbench: it measures on labelled sets what the core promises, and keeps its scores.

It reads the core and is read by nothing in it. The name shadows a builtin: write `from eval import overlap`.
"""
