"""The loop and what it needs: optimizer, schedule, checkpoints, the run folder. It knows no objective and no task."""
