# SPDX-License-Identifier: MIT
noinst_HEADERS += \
	daemon/conf.h \
	daemon/device.h \
	daemon/region.h \
	daemon/shard.h
