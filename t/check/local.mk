# SPDX-License-Identifier: MIT
CHECK_TESTS = \
	t/check/check.test \
	t/check/doctor.test
TESTS += $(CHECK_TESTS)
dist_check_SCRIPTS += $(CHECK_TESTS)
EXTRA_DIST += t/check/story.py
