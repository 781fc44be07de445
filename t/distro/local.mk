# SPDX-License-Identifier: MIT
# Not among TESTS: it takes minutes and a mirror. contrib/check --distro runs it.
EXTRA_DIST += \
	t/distro/matrix \
	t/distro/programs
