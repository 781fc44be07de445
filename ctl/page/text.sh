#!/bin/sh
# SPDX-License-Identifier: MIT
# text.sh FILE...: each file as an array of its lines, in C: page.css becomes page_css[].
set -eu
for f; do
	echo "static const char *const $(basename "$f" | tr . _)[] = {"
	sed -e 's/[\\"]/\\&/g' -e 's/^/	"/' -e 's/$/\\n",/' "$f"
	printf '\tNULL\n};\n'
done
