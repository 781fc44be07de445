#!/bin/sh
# SPDX-License-Identifier: MIT
# rdma - what rdma(8) of iproute2 says of the devices, for scripts that ask it, below rdmad-run --sysfs. The
# real one asks the kernel, which knows nothing of them.
class=/sys/class/infiniband

usage() {
	cat >&2 <<'END'
Usage: rdma [-j] link [show [DEVICE[/1]]]
       rdma [-j] dev [show [DEVICE]]
       rdma [-j] statistic [show [link DEVICE[/1]]]
       rdma [-j] resource [show [DEVICE]]
       rdma [-j] resource show qp [link DEVICE[/1]]
(This is rdmad's, of rdmad-run --sysfs; of the options it has only -j and -p. Devices are made in rdmad.conf, not
here; more is in rdmactl stats, qps, users.)
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

# Its place among the devices.
place() {	# DEVICE
	n=0
	for d in "$class"/*; do
		[ "${d##*/}" != "$1" ] || break
		n=$((n + 1))
	done
	echo "$n"
}

dev() {	# DEVICE
	echo "$(place "$1"): $1: node_type ca fw $(cat "$class/$1/fw_ver") node_guid $(cat "$class/$1/node_guid") sys_image_guid $(cat "$class/$1/sys_image_guid") "
}

statistic() {	# DEVICE
	printf 'link %s/1' "$1"
	for f in "$class/$1"/ports/1/hw_counters/*; do
		case $f in */lifespan) ;; *) printf ' %s %s' "${f##*/}" "$(cat "$f")";; esac
	done
	echo ' '
}

# The daemon's answer, by rdmactl -j: a key and its value in each line.
ask() {	# DUMP
	command -v rdmactl >/dev/null || { echo "rdma: resource needs rdmactl, which is not in PATH" >&2; exit 1; }
	json=$(rdmactl -j "$1") || exit 1
	echo "$json" | tr -d '",'
}

resource() {	# DEVICE
	answer=$(ask stats) || exit 1
	echo "$answer" | awk -v dev="$1" '
		$1 == "name:" { mine = $2 == dev; n++ }
		mine && /objects: / { counts = 1; next }
		mine && /}/ { counts = 0 }
		counts { v[$1] = $2; at = n - 1 }
		END {
			printf "%d: %s:", at, dev
			split("pd cq qp mr ctx srq", short)
			split("pds: cqs: qps: mrs: contexts: srqs:", long)
			for (i = 1; i <= 6; i++)
				printf " %s %d", short[i], v[long[i]]
			print " "
		}'
}

resource_qp() {	# DEVICE
	answer=$(ask qps) || exit 1
	echo "$answer" | awk -v dev="$1" '
		{ v[$1] = $0; sub(/^[^:]*: */, "", v[$1]) }
		$1 == "retrans:" && v["device:"] == dev {
			rqpn = v["dest_qpn:"] + 0 ? " rqpn " v["dest_qpn:"] : ""
			print "link " dev "/1 lqpn " v["qpn:"] rqpn " type " v["type:"] " state " v["state:"] \
				" sq-psn " v["sq_psn_next:"] " pid " v["pid:"] " comm " v["program:"] " "
		}'
}

# The lines of any of them, as the array that they are with -j: "link DEVICE/1 KEY VALUE..." or "N: DEVICE: KEY VALUE...".
as_json() {
	places=
	for d in "$class"/*; do
		places="$places ${d##*/}"
	done
	nets=
	for d in /sys/class/net/*; do
		[ ! -e "$d/ifindex" ] || nets="$nets ${d##*/} $(cat "$d/ifindex")"
	done
	awk -v places="$places" -v nets="$nets" '
		function string(s) { gsub(/[\\"]/, "\\\\&", s); gsub(/[[:cntrl:]]/, "?", s); return "\"" s "\"" }
		function value(key, v) { return v ~ /^(0|[1-9][0-9]*)$/ && key != "fw" && key != "comm" ? v : string(v) }
		BEGIN {
			n = split(places, p)
			for (i = 1; i <= n; i++)
				place[p[i]] = i - 1
			n = split(nets, p)
			for (i = 1; i <= n; i += 2)
				ifindex[p[i]] = p[i + 1]
			printf "["
		}
		NF < 2 { next }
		{
			name = $2
			sub(/[:\/].*$/, "", name)
			printf "%s{\"ifindex\":%d,\"ifname\":%s%s", sep, place[name], string(name), $1 == "link" ? ",\"port\":1" : ""
			sep = "},"
			for (i = 3; i < NF; i += 2) {
				v = $(i + 1)
				if ($i == "comm") {	# the last; the name of a program may have blanks
					v = substr($0, index($0, " comm ") + 6)
					sub(/ $/, "", v)
					printf ",\"comm\":%s", string(v)
					break
				}
				printf ",%s:%s", string($i), value($i, v)
				if ($i == "netdev" && v in ifindex)
					printf ",\"netdev_index\":%d", ifindex[v]
			}
		}
		END { print (sep == "" ? "" : "}") "]" }'
}

show() {
	if [ "$name" ]; then
		$what "$name"
	else
		for d in "$class"/*; do
			[ ! -d "$d" ] || $what "${d##*/}" || return
		done
	fi
}

# Options may stand anywhere, as with the real one.
json=
left=$#
while [ "$left" -gt 0 ]; do
	left=$((left - 1))
	case $1 in
	-j|-json|--json|-jp|-pj) json=1;;
	-p|-pretty|--pretty) ;;
	-V|-Version|--version) echo "rdma of rdmad"; exit 0;;
	-*) usage;;
	*) set -- "$@" "$1";;
	esac
	shift
done
what=${1-}
case $what in
link|dev) ;;
stat|statistic|statistics) what=statistic;;
res|resource) what=resource;;
*) usage;;
esac
case ${2-show} in show|list) ;; *) usage;; esac
shift
[ $# -eq 0 ] || shift
if [ "$what" = resource ] && [ "${1-}" = qp ]; then
	what=resource_qp
	shift
fi
case $what.${1-} in
statistic.link|resource_qp.link) shift;;
statistic.?*|resource_qp.?*|resource.cm_id|resource.cq|resource.ctx|resource.mr|resource.pd|resource.srq) usage;;
esac
name=
if [ $# -ge 1 ]; then
	name=${1%/1}
	[ -d "$class/$name" ] || { echo "rdma: no device $name" >&2; exit 1; }
fi
if [ $json ]; then
	text=$(show) || exit 1
	echo "$text" | as_json
else
	show
fi
