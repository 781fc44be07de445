# SPDX-License-Identifier: MIT
TESTS += t/play/play.test
dist_check_SCRIPTS += t/play/play.test
EXTRA_DIST += t/play/chrome.py
