"""``python -m destiny.cli``, as ``destiny``."""

from destiny.cli import main

main()
