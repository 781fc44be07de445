# SPDX-License-Identifier: MIT
# awk -f fill.awk TABLE.def PAGE.in: the page, with what the code itself says in place of a line @STATS@, @STUBS@ or @RULES@.

# The next string in double quotes of row; takes it off.
function text_take(    t) {
	if (!match(row, /"[^"]*"/))
		return ""
	t = substr(row, RSTART + 1, RLENGTH - 2)
	row = substr(row, RSTART + RLENGTH)
	return t
}

function row_keep(    name) {
	if (row ~ /^STAT\(/) {
		split(row, part, /, */)
		rows[++n] = ".It " part[2] "\n" text_take()
	} else if (row ~ /^STUB_|^RULE/) {
		name = text_take()
		rows[++n] = ".It " name "\n" text_take()
	}
	row = ""
}

# A table's row may run over several lines: it ends with the next one's beginning.
FNR == NR {
	if (/^STAT\(|^STUB_|^RULE\(/) {
		row_keep()
		row = $0
	} else if (row != "") {
		row = row $0
	}
	next
}

/^@(STATS|STUBS|RULES)@$/ {
	row_keep()
	if (!n)
		exit 1
	for (i = 1; i <= n; i++)
		print rows[i]
	next
}

{ print }
