# SPDX-License-Identifier: MIT
check_PROGRAMS += t/rdmacm/api
t_rdmacm_api_SOURCES = \
	t/interrupt.h \
	t/late.c \
	t/late.h \
	t/unseen.c \
	t/unseen.h \
	t/fds_left.h \
	t/ok.h \
	t/rdmacm/api_close.c \
	t/rdmacm/api_conn.c \
	t/rdmacm/api_end.c \
	t/rdmacm/api_misc.c \
	t/rdmacm/api_order.c \
	t/rdmacm/api_rs.c \
	t/rdmacm/api_rs_accept.c \
	t/rdmacm/api_rs_early.c \
	t/rdmacm/api_rs_grow.c \
	t/rdmacm/api_rsd.c \
	t/rdmacm/api_signal.c \
	t/rdmacm/api_sleep.c \
	t/rdmacm/api_stream.c \
	t/rdmacm/api_sync.c \
	t/rdmacm/api_ud.c \
	t/rdmacm/fixture.c \
	t/rdmacm/fixture.h \
	t/rdmacm/streams.c \
	t/rdmacm/streams.h
t_rdmacm_api_CPPFLAGS = -D_GNU_SOURCE -I$(srcdir) $(CHECK_CFLAGS)
t_rdmacm_api_LDADD = -lrdmacm -libverbs $(CHECK_LIBS) -ldl -lpthread

RDMACM_TESTS = \
	t/rdmacm/api.test \
	t/rdmacm/end.test \
	t/rdmacm/loss.test \
	t/rdmacm/many.test \
	t/rdmacm/route.test \
	t/rdmacm/rs.test \
	t/rdmacm/symbols.test \
	t/rdmacm/tools.test \
	t/rdmacm/wire.test
TESTS += $(RDMACM_TESTS)
dist_check_SCRIPTS += $(RDMACM_TESTS)
EXTRA_DIST += t/rdmacm/progs.py t/rdmacm/symbols.txt

check_PROGRAMS += t/rdmacm/rs_hello
t_rdmacm_rs_hello_SOURCES = t/rdmacm/rs_hello.c lib/rdmacm/rs_wire.c
t_rdmacm_rs_hello_CPPFLAGS = -D_GNU_SOURCE -I$(srcdir) $(CHECK_CFLAGS)
t_rdmacm_rs_hello_LDADD = $(CHECK_LIBS)
TESTS += t/rdmacm/rs_hello

check_PROGRAMS += t/rdmacm/rs_grow
t_rdmacm_rs_grow_SOURCES = t/rdmacm/rs_grow.c lib/rdmacm/rs_grow.c
t_rdmacm_rs_grow_CPPFLAGS = -D_GNU_SOURCE -I$(srcdir) -I$(srcdir)/include $(CHECK_CFLAGS)
t_rdmacm_rs_grow_LDADD = $(CHECK_LIBS)
TESTS += t/rdmacm/rs_grow

check_PROGRAMS += t/rdmacm/rs_ds_hdr
t_rdmacm_rs_ds_hdr_SOURCES = t/rdmacm/rs_ds_hdr.c lib/rdmacm/rs_ds_wire.c
t_rdmacm_rs_ds_hdr_CPPFLAGS = -D_GNU_SOURCE -I$(srcdir) $(CHECK_CFLAGS)
t_rdmacm_rs_ds_hdr_LDADD = $(CHECK_LIBS)
TESTS += t/rdmacm/rs_ds_hdr
