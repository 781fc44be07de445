# SPDX-License-Identifier: MIT
EXTRA_DIST += \
	.ci/run \
	contrib/check \
	contrib/installed \
	contrib/quickstart \
	contrib/setup \
	contrib/systemd/rdmad.service \
	contrib/tally
