# SPDX-License-Identifier: MIT
# Not among TESTS: it takes a minute and a mirror. contrib/check --distro runs it.
EXTRA_DIST += \
	t/distro/lib.sh \
	t/distro/matrix \
	t/distro/mpi.py \
	t/distro/programs
