# SPDX-License-Identifier: MIT
# Not among TESTS: they take minutes and a mirror. contrib/check --distro and --compilers run them.
EXTRA_DIST += \
	t/distro/compilers \
	t/distro/lib.sh \
	t/distro/matrix \
	t/distro/mpi.py \
	t/distro/programs
