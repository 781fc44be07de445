# SPDX-License-Identifier: MIT
noinst_HEADERS += \
	daemon/base/clock.h \
	daemon/base/conf.h \
	daemon/base/device.h \
	daemon/base/foreign.h \
	daemon/base/held.h \
	daemon/base/log.h \
	daemon/base/mem_map.h \
	daemon/base/mem_vm.h \
	daemon/base/peer.h \
	daemon/base/quota.def \
	daemon/base/quota.h \
	daemon/base/region.h \
	daemon/base/shmem.h \
	daemon/cma/cma.h \
	daemon/cma/cma_agent.h \
	daemon/cma/neigh.h \
	daemon/control/call.h \
	daemon/control/capture.h \
	daemon/control/ctl.h \
	daemon/control/dump.h \
	daemon/control/ends.h \
	daemon/control/impair_spec.h \
	daemon/control/impair_verb.h \
	daemon/control/impair.h \
	daemon/control/gid.h \
	daemon/control/hooks.h \
	daemon/control/host.h \
	daemon/control/qp_row.h \
	daemon/control/session.h \
	daemon/control/sessions.h \
	daemon/control/why.h \
	daemon/control/why_text.h \
	daemon/shard/answer.h \
	daemon/shard/bells.h \
	daemon/shard/ctx.h \
	daemon/shard/ctx_obj.h \
	daemon/shard/drain.h \
	daemon/shard/hooks.h \
	daemon/shard/idrule.h \
	daemon/shard/inbox.h \
	daemon/shard/io.h \
	daemon/shard/net.h \
	daemon/shard/net_gid.h \
	daemon/shard/net_group.h \
	daemon/shard/net_priv.h \
	daemon/shard/net_rx.h \
	daemon/shard/net_sock.h \
	daemon/shard/net_tx.h \
	daemon/shard/peers.h \
	daemon/shard/obj.h \
	daemon/shard/cpu.h \
	daemon/shard/publish.h \
	daemon/shard/raw.h \
	daemon/shard/steer.h \
	daemon/shard/shard.h \
	daemon/shard/share.h \
	daemon/shard/spin.h \
	daemon/shard/tap.h \
	daemon/shard/thread.h \
	daemon/shard/turn.h

# All of the daemon but main(), so that tests can link it.
noinst_LIBRARIES += libdaemon.a
libdaemon_a_SOURCES = \
	daemon/base/clock.c \
	daemon/base/conf.c \
	daemon/base/foreign.c \
	daemon/base/held.c \
	daemon/base/log.c \
	daemon/base/mem_map.c \
	daemon/base/mem_vm.c \
	daemon/base/peer.c \
	daemon/base/quota.c \
	daemon/base/region.c \
	daemon/base/shmem.c \
	daemon/cma/cma.c \
	daemon/cma/cma_addr.c \
	daemon/cma/cma_agent.c \
	daemon/cma/cma_conn.c \
	daemon/cma/cma_event.c \
	daemon/cma/cma_id.c \
	daemon/cma/cma_mcast.c \
	daemon/cma/cma_port.c \
	daemon/cma/neigh.c \
	daemon/control/call.c \
	daemon/control/capture.c \
	daemon/control/ctl.c \
	daemon/control/dump.c \
	daemon/control/dump_send.c \
	daemon/control/ends.c \
	daemon/control/impair_spec.c \
	daemon/control/impair_verb.c \
	daemon/control/impair.c \
	daemon/control/gid.c \
	daemon/control/hooks.c \
	daemon/control/host.c \
	daemon/control/qp_row.c \
	daemon/control/session.c \
	daemon/control/sessions.c \
	daemon/control/verb.c \
	daemon/control/verb_mcast.c \
	daemon/control/verb_mem.c \
	daemon/control/verb_query.c \
	daemon/control/verb_queue.c \
	daemon/control/why.c \
	daemon/control/why_json.c \
	daemon/control/why_name.c \
	daemon/control/why_text.c \
	daemon/control/why_verb.c \
	daemon/control/xrcd.c \
	daemon/shard/answer.c \
	daemon/shard/bells.c \
	daemon/shard/ctx.c \
	daemon/shard/ctx_obj.c \
	daemon/shard/drain.c \
	daemon/shard/epoll.c \
	daemon/shard/hooks.c \
	daemon/shard/idrule.c \
	daemon/shard/inbox.c \
	daemon/shard/io.c \
	daemon/shard/net.c \
	daemon/shard/net_gid.c \
	daemon/shard/net_group.c \
	daemon/shard/net_rx.c \
	daemon/shard/net_sock.c \
	daemon/shard/net_tx.c \
	daemon/shard/obj.c \
	daemon/shard/cpu.c \
	daemon/shard/peers.c \
	daemon/shard/publish.c \
	daemon/shard/raw.c \
	daemon/shard/steer.c \
	daemon/shard/shard.c \
	daemon/shard/share.c \
	daemon/shard/spin.c \
	daemon/shard/tap.c \
	daemon/shard/thread.c \
	daemon/shard/turn.c \
	daemon/shard/uring.c

sbin_PROGRAMS += rdmad
rdmad_SOURCES = daemon/main.c
rdmad_CPPFLAGS = $(AM_CPPFLAGS) -DSYSCONFDIR='"$(sysconfdir)"'
rdmad_LDADD = libdaemon.a liblab.a libproto.a $(EV_LIBS) $(URING_LIBS) $(CRYPTO_LIBS) $(ISAL_LIBS) $(JANSSON_LIBS) \
	$(CONFUSE_LIBS) $(YAML_LIBS) -lpthread
