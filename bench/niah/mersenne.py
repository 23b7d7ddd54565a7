"""Numbers from a seed that are the same everywhere and in every version: std::mt19937_64 of C++, which Python does not have.

The published numbers of the models' cards were drawn with it. Making one takes a fifth of a millisecond.
"""

ALL_BITS = (1 << 64) - 1
SIZE, MIDDLE = 312, 156
LOWER = (1 << 31) - 1
UPPER = ALL_BITS ^ LOWER


class Random:
    def __init__(self, seed):
        state = [seed & ALL_BITS]
        for i in range(1, SIZE):
            last = state[-1]
            state.append((6364136223846793005 * (last ^ last >> 62) + i) & ALL_BITS)
        self._state, self._at = state, SIZE

    def bits(self):
        """64 random bits."""
        if self._at == SIZE:
            self._renew()
        bits = self._state[self._at]
        self._at += 1
        bits ^= bits >> 29 & 0x5555555555555555
        bits ^= bits << 17 & 0x71d67fffeda60000
        bits ^= bits << 37 & 0xfff7eee000000000
        return bits ^ bits >> 43

    def _renew(self):
        state = self._state
        for i in range(SIZE):
            both = state[i] & UPPER | state[(i + 1) % SIZE] & LOWER
            state[i] = state[(i + MIDDLE) % SIZE] ^ both >> 1 ^ (0xb5026f5aa96619e9 if both & 1 else 0)
        self._at = 0

    def below(self, count):
        return self.bits() % count

    def unit(self):
        """A number from 0 to 1, 1 excluded."""
        return (self.bits() >> 11) * 2.0**-53

    def pick(self, values):
        return values[self.below(len(values))]

    def characters(self, count, alphabet):
        return "".join(self.pick(alphabet) for _ in range(count))
