# SPDX-License-Identifier: MIT
noinst_HEADERS += \
	daemon/answer.h \
	daemon/capture.h \
	daemon/cma.h \
	daemon/cma_agent.h \
	daemon/conf.h \
	daemon/ctl.h \
	daemon/ctx.h \
	daemon/device.h \
	daemon/ends.h \
	daemon/fault.h \
	daemon/fault_verb.h \
	daemon/faults.h \
	daemon/host.h \
	daemon/io.h \
	daemon/log.h \
	daemon/mem_map.h \
	daemon/mem_vm.h \
	daemon/neigh.h \
	daemon/net.h \
	daemon/net_priv.h \
	daemon/peer.h \
	daemon/place.h \
	daemon/raw.h \
	daemon/rules.h \
	daemon/region.h \
	daemon/session.h \
	daemon/shard.h \
	daemon/spin.h \
	daemon/tap.h \
	daemon/why.h \
	daemon/why_text.h

# All of the daemon but main(), so that tests can link it.
noinst_LIBRARIES += libdaemon.a
libdaemon_a_SOURCES = \
	daemon/answer.c \
	daemon/capture.c \
	daemon/cma.c \
	daemon/cma_addr.c \
	daemon/cma_agent.c \
	daemon/cma_conn.c \
	daemon/cma_event.c \
	daemon/cma_id.c \
	daemon/cma_mcast.c \
	daemon/cma_port.c \
	daemon/conf.c \
	daemon/ctl.c \
	daemon/ctx.c \
	daemon/ctx_obj.c \
	daemon/drain.c \
	daemon/dump.c \
	daemon/ends.c \
	daemon/epoll.c \
	daemon/fault.c \
	daemon/fault_verb.c \
	daemon/faults.c \
	daemon/gid.c \
	daemon/host.c \
	daemon/idrule.c \
	daemon/io.c \
	daemon/log.c \
	daemon/mem_map.c \
	daemon/mem_vm.c \
	daemon/neigh.c \
	daemon/net.c \
	daemon/net_group.c \
	daemon/net_rx.c \
	daemon/net_tx.c \
	daemon/peer.c \
	daemon/publish.c \
	daemon/place.c \
	daemon/raw.c \
	daemon/rules.c \
	daemon/region.c \
	daemon/session.c \
	daemon/shard.c \
	daemon/spin.c \
	daemon/tap.c \
	daemon/uring.c \
	daemon/verb.c \
	daemon/verb_mcast.c \
	daemon/verb_mem.c \
	daemon/verb_query.c \
	daemon/verb_queue.c \
	daemon/why.c \
	daemon/why_json.c \
	daemon/why_name.c \
	daemon/why_text.c \
	daemon/why_verb.c \
	daemon/xrcd.c

sbin_PROGRAMS += rdmad
rdmad_SOURCES = daemon/main.c
rdmad_CPPFLAGS = $(AM_CPPFLAGS) -DSYSCONFDIR='"$(sysconfdir)"'
rdmad_LDADD = libdaemon.a liblab.a libproto.a $(EV_LIBS) $(URING_LIBS) $(CRYPTO_LIBS) $(ISAL_LIBS) $(JANSSON_LIBS) \
	$(CONFUSE_LIBS) $(YAML_LIBS) -lpthread
