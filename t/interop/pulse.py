# SPDX-License-Identifier: MIT
"""pulse.py - has this machine stood still? A host that is suspended, frozen or starved makes each time limit of others meaningless."""
import threading
import time

BEAT = 0.1
LONG = 2.0		# seconds; a case that fails then, or BEFORE seconds behind it, says nothing
BEFORE = 30.0		# an emulated machine needs as long again to find its time


class Pulse:
    def __init__(self):
        self.gaps = []	# (end, seconds)
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self):
        last = time.monotonic()
        while True:
            time.sleep(BEAT)
            now = time.monotonic()
            if now - last > LONG:
                self.gaps.append((now, now - last))
            last = now

    def longest_since(self, when):
        return max([seconds for end, seconds in self.gaps if end >= when], default=0.0)
