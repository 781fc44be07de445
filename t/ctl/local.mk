# SPDX-License-Identifier: MIT
CTL_TESTS = \
	t/ctl/check.test \
	t/ctl/colours.test \
	t/ctl/doctor.test \
	t/ctl/fair.test \
	t/ctl/ladder.test \
	t/ctl/ladders.test \
	t/ctl/live.test \
	t/ctl/page.test \
	t/ctl/top.test
TESTS += $(CTL_TESTS)
dist_check_SCRIPTS += $(CTL_TESTS)
EXTRA_DIST += t/ctl/scenes.py t/ctl/story.py
