# SPDX-License-Identifier: MIT
noinst_HEADERS += \
	daemon/device.h \
	daemon/region.h \
	daemon/shard.h
