"""Stateless random numbers, derived from integers such as a seed, a step or a document number."""


def mix(*numbers: int) -> int:
    """Hash integers to 63 bits, so that neighboring seeds and steps give unrelated numbers."""
    state = 0
    for number in numbers:  # the finalizer of splitmix64
        state = (state + number + 0x9E3779B97F4A7C15) & (2**64 - 1)
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        state ^= state >> 31
    return state >> 1
