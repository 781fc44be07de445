# SPDX-License-Identifier: MIT
LAB_TESTS = \
	t/lab/act \
	t/lab/blame \
	t/lab/damage \
	t/lab/dress \
	t/lab/pcapng \
	t/lab/remark \
	t/lab/rule \
	t/lab/spool \
	t/lab/yaml
noinst_HEADERS += t/lab/rig.h
check_PROGRAMS += $(LAB_TESTS)
TESTS += $(LAB_TESTS)
LAB_TEST_LIBS = liblab.a libproto.a $(CHECK_LIBS) $(ISAL_LIBS)

t_lab_pcapng_SOURCES = t/lab/pcapng.c t/pcap.c
t_lab_pcapng_LDADD = $(LAB_TEST_LIBS) $(PCAP_LIBS)
t_lab_dress_SOURCES = t/lab/dress.c t/pcap.c
t_lab_dress_LDADD = $(LAB_TEST_LIBS)
t_lab_remark_SOURCES = t/lab/remark.c t/proto/rig.c
t_lab_remark_LDADD = $(LAB_TEST_LIBS)
t_lab_spool_SOURCES = t/lab/spool.c
t_lab_spool_LDADD = $(LAB_TEST_LIBS) -lpthread
t_lab_act_SOURCES = t/lab/act.c
t_lab_act_LDADD = $(LAB_TEST_LIBS) $(YAML_LIBS)
t_lab_blame_SOURCES = t/lab/blame.c
t_lab_blame_LDADD = $(LAB_TEST_LIBS) $(YAML_LIBS)
t_lab_damage_SOURCES = t/lab/damage.c
t_lab_damage_LDADD = $(LAB_TEST_LIBS) $(YAML_LIBS)
t_lab_rule_SOURCES = t/lab/rule.c
t_lab_rule_LDADD = $(LAB_TEST_LIBS) $(YAML_LIBS)
t_lab_yaml_SOURCES = t/lab/yaml.c
t_lab_yaml_LDADD = $(LAB_TEST_LIBS) $(YAML_LIBS)

# Programs and daemons; the harness is that of t/e2e.
TESTS += t/lab/capture.test t/lab/capture-clock.test
dist_check_SCRIPTS += t/lab/capture.test t/lab/capture-clock.test
EXTRA_DIST += t/lab/ng.py
