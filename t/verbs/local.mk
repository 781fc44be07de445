# SPDX-License-Identifier: MIT
VERBS_TESTS = \
	t/verbs/loader.test \
	t/verbs/symbols.test
TESTS += $(VERBS_TESTS)
dist_check_SCRIPTS += $(VERBS_TESTS)
EXTRA_DIST += t/verbs/symbols.txt
