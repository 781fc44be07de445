#!/bin/sh
# SPDX-License-Identifier: MIT
# rdma - what rdma(8) of iproute2 says of the devices, for scripts that ask it, below rdmad-run --sysfs. The
# real one asks the kernel, which knows nothing of them.
class=/sys/class/infiniband

usage() {
	cat >&2 <<'END'
Usage: rdma link [show [DEVICE[/1]]]
       rdma dev [show [DEVICE]]
(This is rdmad's, of rdmad-run --sysfs. Devices are made in rdmad.conf, not here.)
END
	exit 1
}

# The word behind the number: "4: ACTIVE"
word() {
	sed 's/^[0-9]*: *//' "$1"
}

link() {	# DEVICE
	port=$class/$1/ports/1
	netdev=
	for n in "$class/$1"/device/net/*; do
		[ -e "$n" ] && netdev=" netdev ${n##*/}"
		break
	done
	physical=$(word "$port/phys_state" | sed 's/\([a-z]\)\([A-Z]\)/\1_\2/g' | tr '[:lower:]' '[:upper:]')
	echo "link $1/1 state $(word "$port/state") physical_state $physical$netdev "
}

dev() {	# DEVICE
	n=0
	for d in "$class"/*; do
		[ "${d##*/}" != "$1" ] || break
		n=$((n + 1))
	done
	echo "$n: $1: node_type ca fw $(cat "$class/$1/fw_ver") node_guid $(cat "$class/$1/node_guid") sys_image_guid $(cat "$class/$1/sys_image_guid") "
}

what=${1-}
case $what in
-V|-Version|--version) echo "rdma of rdmad"; exit 0;;
link|dev) ;;
*) usage;;
esac
case ${2-show} in show|list) ;; *) usage;; esac
if [ $# -ge 3 ]; then
	name=${3%/1}
	[ -d "$class/$name" ] || { echo "rdma: no device $name" >&2; exit 1; }
	$what "$name"
else
	for d in "$class"/*; do
		[ ! -d "$d" ] || $what "${d##*/}"
	done
fi
