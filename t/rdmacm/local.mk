# SPDX-License-Identifier: MIT
RDMACM_TESTS = \
	t/rdmacm/symbols.test
TESTS += $(RDMACM_TESTS)
dist_check_SCRIPTS += $(RDMACM_TESTS)
EXTRA_DIST += t/rdmacm/symbols.txt
