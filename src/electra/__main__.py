"""`python -m electra` is the command `electra`; `torchrun -m electra` uses it."""

from electra.cli import main

main()
