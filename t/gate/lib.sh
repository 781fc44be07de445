# SPDX-License-Identifier: MIT
# lib.sh - what the gates share.  A gate prints every offender and fails if there was one.
# Gates look at the source tree (src, an absolute name): a clone, or what a tarball was unpacked to.
set -eu
LC_ALL=C
export LC_ALL
src=$(cd "${srcdir:-.}" && pwd)
bad=$(mktemp) || exit 99
trap 'rm -f "$bad"' EXIT

offend()	# message...: one offender
{
	printf '%s\n' "$*" | tee -a "$bad"
}

verdict()	# the end of a gate
{
	if [ -s "$bad" ]; then
		echo "offenders: $(wc -l <"$bad")"
		exit 1
	fi
	exit 0
}

# The project's own files, relative to $src.  Not: what autotools generate.
files()
{
	if [ -e "$src/.git" ] && git -C "$src" ls-files --error-unmatch configure.ac >/dev/null 2>&1; then
		git -C "$src" ls-files | while read -r f; do
			if [ -e "$src/$f" ]; then echo "$f"; fi
		done
	else
		for d in proto lab sim include daemon ctl run lib man doc t contrib; do
			[ ! -d "$src/$d" ] || (cd "$src" && find $d -type f)
		done | grep -vE '/\.(deps|libs|dirstamp)|\.(o|lo|la|a|so[.0-9]*|log|trs|pyc)$' | elf_free
		(cd "$src" && ls configure.ac Makefile.am README.md CONTRIBUTING.md PERFORMANCE.md SECURITY.md NEWS LICENSE)
	fi
}

# A tree that was built in place holds programs beside their sources.
elf_free()
{
	(cd "$src" && xargs grep -La "$(printf '^\177ELF')") || true
}

# Of those: what is written by hand as text.
sources()
{
	files | grep -vE '(^|/)(LICENSE|NEWS|\.gitkeep|\.gitignore)$|\.(pcap|md|png)$|^t/fuzz/corpus/|^debian/(changelog|copyright|source/format)$|\.json$'
}

c_files()
{
	files | grep -E '\.(c|h|def)$'
}
