"""Run commands under faults and check that each ends with the right bytes or a one-line refusal.

python runs/faults.py --cases 10000 --out local/faults [--seed 0] [--workers 2]
python runs/faults.py --case SEED --out local/faults

The parts are in runs/faults/: commands, faults, damage, hostile, verdicts, process, campaign.
"""

from faults.campaign import main

if __name__ == "__main__":
    main()
