# SPDX-License-Identifier: MIT
check_PROGRAMS += t/verbs/api
t_verbs_api_SOURCES = \
	t/fds_left.h \
	t/unseen.c \
	t/unseen.h \
	t/verbs/api_arm.c \
	t/verbs/api_attr.c \
	t/verbs/api_async.c \
	t/verbs/api_back.c \
	t/verbs/api_beside.c \
	t/verbs/api_caller.c \
	t/verbs/api_event.c \
	t/verbs/api_ex.c \
	t/verbs/api_flush.c \
	t/verbs/api_fork.c \
	t/verbs/api_hold.c \
	t/verbs/api_handle.c \
	t/verbs/api_inline.c \
	t/verbs/api_key.c \
	t/verbs/api_many.c \
	t/verbs/api_arena.c \
	t/verbs/api_map.c \
	t/verbs/api_memory.c \
	t/verbs/api_mw.c \
	t/verbs/api_cntr.c \
	t/verbs/api_newer.c \
	t/verbs/api_objects.c \
	t/verbs/api_offload.c \
	t/verbs/api_ops.c \
	t/verbs/api_answer.c \
	t/verbs/api_order.c \
	t/verbs/api_post.c \
	t/verbs/api_rate.c \
	t/verbs/api_raw.c \
	t/verbs/api_rss.c \
	t/verbs/api_segment.c \
	t/verbs/api_share.c \
	t/verbs/api_srq.c \
	t/verbs/api_stack.c \
	t/verbs/api_why.c \
	t/verbs/api_tracer.c \
	t/verbs/api_xrc.c \
	t/verbs/arena.c \
	t/verbs/arena.h \
	t/verbs/fixture.c \
	t/verbs/fixture.h \
	t/verbs/scene.c \
	t/verbs/scene.h \
	t/verbs/spy.c \
	t/verbs/spy.h
t_verbs_api_CPPFLAGS = -D_GNU_SOURCE -I$(top_srcdir)/include $(CHECK_CFLAGS)
t_verbs_api_LDADD = -libverbs $(CHECK_LIBS) $(URING_LIBS) -lpthread

check_PROGRAMS += t/verbs/hash
TESTS += t/verbs/hash
t_verbs_hash_SOURCES = t/verbs/hash.c lib/verbs/hash.c
t_verbs_hash_CFLAGS = $(AM_CFLAGS)
t_verbs_hash_LDADD = $(CHECK_LIBS)

check_PROGRAMS += t/verbs/nap
TESTS += t/verbs/nap
t_verbs_nap_SOURCES = t/verbs/nap.c lib/verbs/nap.c lib/verbs/crowd.c
t_verbs_nap_CFLAGS = $(AM_CFLAGS)
t_verbs_nap_LDADD = $(CHECK_LIBS)

check_PROGRAMS += t/verbs/way
TESTS += t/verbs/way
t_verbs_way_SOURCES = t/verbs/way.c lib/verbs/way.c lib/verbs/ctx.c lib/verbs/hash.c
t_verbs_way_CFLAGS = $(AM_CFLAGS)
t_verbs_way_LDADD = $(CHECK_LIBS)

check_PROGRAMS += t/verbs/lid
t_verbs_lid_SOURCES = t/verbs/lid.c
t_verbs_lid_CPPFLAGS = -D_GNU_SOURCE $(CHECK_CFLAGS)
t_verbs_lid_LDADD = -libverbs $(CHECK_LIBS)

VERBS_TESTS = \
	t/verbs/api.test \
	t/verbs/direct.test \
	t/verbs/glibc.test \
	t/verbs/gvisor.test \
	t/verbs/lid.test \
	t/verbs/loader.test \
	t/verbs/symbols.test
TESTS += $(VERBS_TESTS)
dist_check_SCRIPTS += $(VERBS_TESTS)
EXTRA_DIST += t/verbs/symbols.txt t/verbs/private.txt
