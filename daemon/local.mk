# SPDX-License-Identifier: MIT
noinst_HEADERS += \
	daemon/conf.h \
	daemon/device.h \
	daemon/fault.h \
	daemon/host.h \
	daemon/io.h \
	daemon/log.h \
	daemon/mem_map.h \
	daemon/mem_vm.h \
	daemon/net.h \
	daemon/net_priv.h \
	daemon/region.h \
	daemon/shard.h

# All of the daemon but main(), so that tests can link it.
noinst_LIBRARIES += libdaemon.a
libdaemon_a_SOURCES = \
	daemon/epoll.c \
	daemon/fault.c \
	daemon/gid.c \
	daemon/host.c \
	daemon/idrule.c \
	daemon/io.c \
	daemon/log.c \
	daemon/mem_map.c \
	daemon/mem_vm.c \
	daemon/net.c \
	daemon/net_rx.c \
	daemon/net_tx.c \
	daemon/region.c \
	daemon/shard.c \
	daemon/uring.c
