# SPDX-License-Identifier: MIT
TESTS += t/apps/apps.test
dist_check_SCRIPTS += t/apps/apps.test
EXTRA_DIST += t/apps/mpi.c
