# SPDX-License-Identifier: MIT
# lib.sh - for the tests of rdmad-run: a place of their own, and TAP.  Each sources it first, with its arguments.

build=${RDMAD_BUILD:-$PWD}
: "${apart:=-Urnm}"	# a test that needs the machine's users has set it to -nm
if [ "${1-}" != inside ]; then
	# Names of abstract sockets belong to a network namespace: a test wants them for itself.
	if unshare $apart true 2>/dev/null; then
		exec timeout "$(awk "BEGIN { print 300 * ${E2E_PATIENCE:-1} }")" unshare $apart sh "$0" inside
	fi
	grep -q "@rdmad\.$(id -u)" /proc/net/unix && { echo "# a daemon runs, and there is no namespace without it"; exit 77; }
fi
mount -t tmpfs none /run/rdmad 2>/dev/null	# hides the daemon of the system, if one runs
ip link set lo up 2>/dev/null
unset RDMAD_SOCKET LD_LIBRARY_PATH LD_PRELOAD
# The programs are not ours, and neither are their leaks.
export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"

tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
# For perftest, which would spin for a while behind each row of results (t/e2e/clock.c).
clock=$build/t/e2e/.libs/clock.so
# Limits by timeout, here and in the scripts of tests, are for a machine that has nothing else to do: they are E2E_PATIENCE times
# as long.
patience=$(awk "BEGIN { p = ${E2E_PATIENCE:-1}; print int(p) + (p > int(p)) }")
export patience
if [ "$patience" -gt 1 ]; then
	mkdir "$tmp/.bin" || exit 99
	printf '#!/bin/sh\nseconds=$1\nshift\nexec %s $((seconds * %s)) "$@"\n' "$(command -v timeout)" "$patience" >"$tmp/.bin/timeout"
	chmod +x "$tmp/.bin/timeout"
	PATH=$tmp/.bin:$PATH
fi
n=0
failed=0

ok() {	# NAME: what the command before it returned, and this, too
	status=$?
	n=$((n + 1))
	if [ $status -eq 0 ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; failed=$((failed + 1)); fi
	return $status
}

is() {	# GOT WANTED NAME
	[ "$1" = "$2" ] || { echo "# got:    $1"; echo "# wanted: $2"; false; }
	ok "$3"
}

skip() {	# NAME WHY
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

has() {	# TEXT PATTERN NAME
	case $1 in *"$2"*) true;; *) echo "# got:    $1"; echo "# wanted: ...$2..."; false;; esac
	ok "$3"
}

# A build with a sanitizer looks at what is ours: repetitions, and the work of others, are for the other builds.
sanitized() {
	grep -q '^#define REPEATS_LESS 1' "$build/config.h"
}

gone() {	# PID
	timeout 20 tail --pid="$1" -f /dev/null
}

until_true() {	# SECONDS COMMAND...
	limit=$1; shift
	timeout "$limit" sh -c 'until "$@" 2>/dev/null; do sleep 0.02; done' sh "$@"
}

# Programs that wait for `read x <gate` until release lets N of them go: one byte for each, whenever it comes to read it.
gate_make() {
	mkfifo gate && exec 9<>gate
}

release() {	# N
	i=0
	while [ $i -lt "$1" ]; do
		echo >&9
		i=$((i + 1))
	done
}

done_testing() {
	echo "1..$n"
	[ $failed -eq 0 ]
	exit
}
