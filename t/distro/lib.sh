# SPDX-License-Identifier: MIT
# For scripts that unpack a Debian into a directory: t/distro/matrix, t/distro/compilers, t/cross/matrix, contrib/package-test. They
# set $subject, the words by which a skip names what is left out.
passed=0 failed=0 skipped=0

skip() {	# REASON
	echo "ok - $subject # SKIP $*"
	echo "0 passed, 0 failed, 1 skipped"
	exit 77
}

verdict() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
	exit
}

say() {	# STATUS NAME: counts it
	if [ "$1" -eq 0 ]
	then echo "ok - $2"; passed=$((passed + 1))
	else echo "not ok - $2"; failed=$((failed + 1))
	fi
}

debian_needs() {	# what all of them need; each has needs of its own besides
	[ "$(id -u)" -eq 0 ] || skip "not root: a directory with a Debian in it is made by root"
	command -v mmdebstrap >/dev/null || skip "no mmdebstrap (Debian: mmdebstrap)"
}

# A Debian in DIR, which is not there yet, from the mirror that apt uses here. What mmdebstrap says is in DIR.log. The status is
# not 0 if it failed, and nothing is left of it then. DIR has the file $made, if that is set, from the moment that it is there.
debian() {	# SUITE DIR ARGUMENT-OF-MMDEBSTRAP...
	debian_suite=$1 debian_dir=$2
	shift 2
	# A mirror that stands still, which apt here is told to put up with, is one for the other apt, too. Signatures count.
	for key in Acquire::Check-Valid-Until Acquire::Check-Date; do
		[ "$(apt-config dump --format '%v' $key 2>/dev/null)" != false ] || set -- "$@" "--aptopt=$key \"false\""
	done
	mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -n 1)
	rm -rf --one-file-system "$debian_dir.new"	# of a run that was ended
	mmdebstrap --mode=root "$@" "$debian_suite" "$debian_dir.new" $mirror >"$debian_dir.log" 2>&1 &&
		{ [ -z "${made-}" ] || touch "$debian_dir.new/$made"; } &&
		mv "$debian_dir.new" "$debian_dir" && return
	rm -rf --one-file-system "$debian_dir.new"
	return 1
}

# A mirror that is not there is no fault of what is tested; a package that the mirror does not have is one of ours.
no_debian() {	# SUITE DIR: after debian()
	if grep -qE 'Unable to locate package|has no installation candidate|unmet dependencies' "$2.log"; then
		echo "not ok - $subject: packages for $1 that are asked for cannot be installed; see $2.log"
		grep -E -A 5 'Unable to locate package|has no installation candidate|unmet dependencies' "$2.log" | head -n 12 | sed 's/^/    /'
		failed=$((failed + 1))
		verdict
	fi
	tail -n 5 "$2.log" | sed 's/^/# /'
	skip "no $1 could be made (is there a mirror?); see $2.log"
}

sources() {	# DIR: the files of this tree go there, of a repository those that git knows, and new ones
	mkdir -p "$1" || return 1
	if [ -e "$top/.git" ]; then
		(cd "$top" && git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read -T -) | tar -x -C "$1"
	else
		(cd "$top" && tar -c --exclude=./build --exclude=./build-check --exclude=./build-packages .) | tar -x -C "$1"
	fi
}

# ---- core, rings and simulator, in a build directory ---------------------------------------------

core_tests() {	# [COMMAND...], which runs make in the build directory: their names
	"$@" make -s --no-print-directory --eval='print: ; @echo $(check_PROGRAMS)' print | tr ' ' '\n' | grep -E '^t/(proto|ring|sim)/'
}

run_tests() {	# DIR WORDS TESTS COMMAND...: what each says is in DIR, WORDS are before its name
	said=$1 words=$2 list=$3
	shift 3
	[ "$(echo "$list" | wc -l)" -ge 30 ] || { say 1 "${words}tests of core, rings and simulator are found"; return; }
	for t in $list; do
		"$@" "$t" >"$said/$t.said" 2>&1
		status=$?
		[ $status -eq 0 ] || tail -n 8 "$said/$t.said" | sed 's/^/    /'
		say $status "$words$t"
	done
}
