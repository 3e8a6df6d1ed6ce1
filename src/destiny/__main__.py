"""``python -m destiny``."""

from destiny.cli import main

main()
