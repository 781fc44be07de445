# SPDX-License-Identifier: MIT
TESTS += t/check/check.test
dist_check_SCRIPTS += t/check/check.test
EXTRA_DIST += t/check/story.py
