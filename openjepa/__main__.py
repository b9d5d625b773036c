"""python -m openjepa"""

from openjepa.cli.main import main

main()
