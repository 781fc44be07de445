# SPDX-License-Identifier: MIT
GATES = \
	t/gate/again.test \
	t/gate/circles.test \
	t/gate/config.test \
	t/gate/conformance.test \
	t/gate/doc.test \
	t/gate/format.test \
	t/gate/layers.test \
	t/gate/man.test \
	t/gate/opcode_files.test \
	t/gate/options.test \
	t/gate/packages.test \
	t/gate/purity.test \
	t/gate/rules.test \
	t/gate/sizes.test \
	t/gate/spdx.test \
	t/gate/times.test \
	t/gate/verbs.test \
	t/gate/why.test \
	t/gate/words.test
TESTS += $(GATES)
dist_check_SCRIPTS += $(GATES)
EXTRA_DIST += t/gate/lib.sh t/gate/layers.proto
