# SPDX-License-Identifier: MIT
LAB_TESTS = \
	t/lab/pcapng
check_PROGRAMS += $(LAB_TESTS)
TESTS += $(LAB_TESTS)
LAB_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(CHECK_CFLAGS)
LAB_TEST_LIBS = liblab.a libproto.a $(CHECK_LIBS) $(ISAL_LIBS)

t_lab_pcapng_SOURCES = t/lab/pcapng.c t/pcap.c
t_lab_pcapng_CPPFLAGS = $(LAB_TEST_CPPFLAGS)
t_lab_pcapng_LDADD = $(LAB_TEST_LIBS) $(PCAP_LIBS)
