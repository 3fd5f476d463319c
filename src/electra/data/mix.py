"""Random numbers that follow from whole numbers: a seed, a step, a document."""


def mix(*numbers: int) -> int:
    """Hash whole numbers to 63 bits, so that neighbouring seeds and steps share nothing."""
    state = 0
    for number in numbers:  # the finaliser of splitmix64
        state = (state + number + 0x9E3779B97F4A7C15) & (2**64 - 1)
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        state ^= state >> 31
    return state >> 1
