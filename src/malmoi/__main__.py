"""`python -m malmoi`."""

from .cli import main

main()
