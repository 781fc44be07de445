# SPDX-License-Identifier: MIT
noinst_HEADERS += \
	daemon/conf.h \
	daemon/device.h \
	daemon/log.h \
	daemon/region.h \
	daemon/shard.h

# All of the daemon but main(), so that tests can link it.
noinst_LIBRARIES += libdaemon.a
libdaemon_a_SOURCES = \
	daemon/log.c
