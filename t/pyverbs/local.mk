# SPDX-License-Identifier: MIT
TESTS += t/pyverbs/pyverbs.test t/pyverbs/checked.test
dist_check_SCRIPTS += t/pyverbs/pyverbs.test t/pyverbs/checked.test
EXTRA_DIST += \
	t/pyverbs/collect.py \
	t/pyverbs/skips.txt
