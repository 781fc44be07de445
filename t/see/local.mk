# SPDX-License-Identifier: MIT
SEE_TESTS = \
	t/see/ladder.test \
	t/see/live.test \
	t/see/page.test \
	t/see/top.test
TESTS += $(SEE_TESTS)
dist_check_SCRIPTS += $(SEE_TESTS)
EXTRA_DIST += t/see/scenes.py
