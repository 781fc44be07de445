# SPDX-License-Identifier: MIT
TESTS += t/play/play.test
dist_check_SCRIPTS += t/play/play.test
EXTRA_DIST += t/play/chrome.py

# The tests of rules once more, on what the page has instead of libyaml and ISA-L.
play_shim = contrib/playground/shim/yaml.c lab/rule_yaml.c proto/crc.c
play_cppflags = -I$(top_srcdir)/contrib/playground/shim $(AM_CPPFLAGS)
PLAY_CHECKS = t/play/shim_icrc t/play/shim_rule t/play/shim_yaml
check_PROGRAMS += $(PLAY_CHECKS)
TESTS += $(PLAY_CHECKS)
t_play_shim_rule_SOURCES = t/lab/rule.c $(play_shim)
t_play_shim_rule_CPPFLAGS = $(play_cppflags)
t_play_shim_rule_LDADD = liblab.a libproto.a $(CHECK_LIBS)
t_play_shim_yaml_SOURCES = t/lab/yaml.c $(play_shim)
t_play_shim_yaml_CPPFLAGS = $(play_cppflags)
t_play_shim_yaml_LDADD = liblab.a libproto.a $(CHECK_LIBS)
t_play_shim_icrc_SOURCES = t/proto/icrc.c $(play_shim)
t_play_shim_icrc_CPPFLAGS = $(play_cppflags)
t_play_shim_icrc_LDADD = liblab.a libproto.a $(CHECK_LIBS)
