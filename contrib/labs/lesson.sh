#!/bin/sh
# SPDX-License-Identifier: MIT
# rdmad-run --lesson NAME [DIR]: its page, its program between two devices of a daemon of its own, with its faults; what passed as
# capture and as ladder in DIR (./lesson-NAME). rdmad-run sets $RDMAD_LESSON_RUN, _CTL, _PROGRAM.
set -u
labs=$(cd "$(dirname "$0")" && pwd)
run=$RDMAD_LESSON_RUN ctl=$RDMAD_LESSON_CTL program=$RDMAD_LESSON_PROGRAM
name=$1 dir=${2-lesson-$1}
order="lost-packet lost-ack rnr retry read-middle bad-rkey psn-wrap uc-rc overrun cm"

page() {	# NAME: without the line of the licence
	sed 1d "$labs/$1.txt"
}

if [ "$name" = list ]; then
	for l in $order; do
		printf '%-12s %s\n' "$l" "$(page "$l" | head -n 1)"
	done
	exit 0
fi
case " $order " in
*" $name "*) ;;
*) echo "rdmad-run: there is no lesson $name; rdmad-run --lesson list names them" >&2; exit 125;;
esac
mkdir -p "$dir" && [ -w "$dir" ] || { echo "rdmad-run: --lesson $name: cannot write to $dir" >&2; exit 125; }
rm -f "$dir"/capture.pcapng "$dir"/ladder.html "$dir"/ladder.svg "$dir"/faults.yaml "$dir"/rdmad.conf

# Two devices, with addresses of the loopback network that are ours by our process id.
n=$((($$ & 4194303) * 2))
at() { echo "127.$((128 + ($1 >> 16 & 127))).$(($1 >> 8 & 255)).$(($1 & 255))"; }
cat >"$dir/rdmad.conf" <<END
device client { addresses = { "$(at $n)" } }
device server { addresses = { "$(at $((n + 1)))" } }
END
set -- --own --daemon-arg --config --daemon-arg "$dir/rdmad.conf" --timeout 60 --explain --capture "$dir/capture.pcapng"
faults=${RDMAD_LESSON_FAULTS-$labs/$name.yaml}
if [ -n "${RDMAD_LESSON_FAULTS-}" ] || [ -e "$faults" ]; then
	cp "$faults" "$dir/faults.yaml" || exit 125
	set -- "$@" --fault "$dir/faults.yaml" --seed 1
fi

page "$name"
echo
[ ! -e "$dir/faults.yaml" ] || { echo "THE FAULT"; sed -n '/^rules:/,$s/^/  /p' "$dir/faults.yaml"; echo; }
echo "WHAT HAPPENED NOW"
"$run" "$@" "$program" "$name"
status=$?
echo
"$ctl" ladder -t "$(page "$name" | head -n 1)" -o "$dir/ladder.html" "$dir/capture.pcapng" >/dev/null &&
	"$ctl" ladder -t "$(page "$name" | head -n 1)" -u -o "$dir/ladder.svg" "$dir/capture.pcapng" | sed 's/^.*svg: /The ladder: /' || exit 125
echo "  $dir/ladder.html      for a browser (ladder.svg: the picture)"
echo "    (it counts PSNs from the first one of each queue pair on)"
echo "  $dir/capture.pcapng   for Wireshark; rdmactl check $dir/capture.pcapng judges it"
echo "With faults of your own (rdmad-fault(5); $labs has those of the lessons):"
echo "  RDMAD_LESSON_FAULTS=my.yaml rdmad-run --lesson $name"
exit $status
