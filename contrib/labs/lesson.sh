#!/bin/sh
# SPDX-License-Identifier: MIT
# rdmad-run --lesson NAME [DIR]: its page, its program between two devices of a daemon of its own, with its faults; what passed as
# capture and as ladder in DIR (./lesson-NAME). A file of faults that is there is the student's: it is used, and stays as it is.
# rdmad-run sets $RDMAD_LESSON_RUN, _CTL, _PROGRAM.
set -u
labs=$(cd "$(dirname "$0")" && pwd)
run=$RDMAD_LESSON_RUN ctl=$RDMAD_LESSON_CTL program=$RDMAD_LESSON_PROGRAM
name=$1 dir=${2-lesson-$1} again="rdmad-run --lesson $1${2:+ $2}"
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
rm -f "$dir"/capture.pcapng "$dir"/ladder.html "$dir"/ladder.svg
conf=$dir/.rdmad.conf.$$
trap 'rm -f "$conf"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM	# dash runs no EXIT trap at a signal

# Two devices, with addresses of the loopback network that are ours by our process id.
n=$((($$ & 4194303) * 2))
at() { echo "127.$((128 + ($1 >> 16 & 127))).$(($1 >> 8 & 255)).$(($1 & 255))"; }
cat >"$conf" <<END
device client { addresses = { "$(at $n)" } }
device server { addresses = { "$(at $((n + 1)))" } }
END
set -- --own --daemon-arg --config --daemon-arg "$conf" --timeout 60 --explain --capture "$dir/capture.pcapng"
its=$labs/$name.yaml faults=${RDMAD_LESSON_FAULTS-}
if [ -z "$faults" ]; then
	faults=$dir/faults.yaml
	[ -e "$faults" ] || [ ! -e "$its" ] || cp "$its" "$faults" || exit 125
	[ -e "$faults" ] || faults=
fi
[ -z "$faults" ] || [ -r "$faults" ] || { echo "rdmad-run: --lesson $name: cannot read the file of faults $faults" >&2; exit 125; }
[ -z "$faults" ] || set -- "$@" --fault "$faults"

page "$name"
echo
if [ -n "$faults" ]; then
	echo "THE FAULT"
	cmp -s "$faults" "$its" || echo "  (of your own, $faults, not the lesson's)"
	sed -n '/^rules:/,$s/^/  /p' "$faults"
	echo
fi
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
echo "  edit or write $dir/faults.yaml, and \"$again\" uses it;"
echo "  delete it to have the lesson's again"
exit $status
