# SPDX-License-Identifier: MIT
# Not among TESTS: it takes minutes and a virtual machine. t/interop/matrix runs it.
check_PROGRAMS += t/interop/relay
t_interop_relay_SOURCES = t/interop/relay.c t/interop/dice.c t/interop/dice.h
t_interop_relay_LDADD = libdaemon.a

EXTRA_DIST += \
	t/interop/agent.py \
	t/interop/faults.py \
	t/interop/guest.py \
	t/interop/image.py \
	t/interop/matrix \
	t/interop/peers.py \
	t/interop/pulse.py \
	t/interop/rows.py
