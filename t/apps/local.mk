# SPDX-License-Identifier: MIT
APPS_TESTS = \
	t/apps/apps.test \
	t/apps/confined.test \
	t/apps/fabric.test \
	t/apps/iser.test \
	t/apps/qemu.test \
	t/apps/rails.test \
	t/apps/rpma.test \
	t/apps/verbs.test
TESTS += $(APPS_TESTS)
dist_check_SCRIPTS += $(APPS_TESTS)
EXTRA_DIST += \
	t/apps/fabric.c \
	t/apps/iser.c \
	t/apps/mpi.c \
	t/apps/rpma.c \
	t/apps/ucx_cm.c \
	t/apps/ucx_rails.c
