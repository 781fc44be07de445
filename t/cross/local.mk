# SPDX-License-Identifier: MIT
# Not among TESTS: it takes a compiler and a mirror. contrib/check --cross runs it.
EXTRA_DIST += t/cross/matrix
