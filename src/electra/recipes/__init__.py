"""Where everything meets: the work of each command as one function."""
