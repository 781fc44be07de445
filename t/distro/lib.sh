# SPDX-License-Identifier: MIT
# For scripts that unpack a Debian into a directory: t/distro/matrix, t/cross/matrix, contrib/package-test. They set $subject, the
# words by which a skip names what is left out.
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
