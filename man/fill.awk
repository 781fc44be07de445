# SPDX-License-Identifier: MIT
# awk -f fill.awk TABLE.def... PAGE.in: the page, with what the code itself says in place of a line @STATS@, @STUBS@,
# @RULES@, @QUOTAS@, @VERBS@, @CAUSES@, @KEYS@, @RECORDS@, @PROFILES@, @FEATURES@ or @LIMITS@.

# The next string in double quotes of row; takes it off.
function text_take(    t) {
	if (!match(row, /"[^"]*"/))
		return ""
	t = substr(row, RSTART + 1, RLENGTH - 2)
	row = substr(row, RSTART + RLENGTH)
	return t
}

# A new sentence is a new line.
function sentences(t) {
	while (match(t, /[.] [A-Z]/))
		t = substr(t, 1, RSTART) "\n" substr(t, RSTART + 2)
	return t
}

# A row of the table of verbs for each name of the list.
function verbs_keep(list, what,    i, k, name) {
	k = split(list, name, /, */)
	for (i = 1; i <= k; i++)
		verb[++verbs] = ".It Fn " name[i] " Ta " what
}

# Its sentence, and its hint.
function why_text(name, grade,    what, hint) {
	what = text_take()
	hint = text_take()
	return ".It " name grade "\n" what "." (hint == "" ? "" : "\n.Em Hint :\n" hint (hint ~ /[?]$/ ? "" : "."))
}

function list_print(v, n,    i) {
	row_keep()
	if (!n)
		exit 1
	for (i = 1; i <= n; i++)
		print v[i]
}

function cap(t) { return toupper(substr(t, 1, 1)) substr(t, 2) }

function row_keep(    name, grade) {
	if (row ~ /^STAT\(/) {
		split(row, part, /, */)
		rows[++n] = ".It " part[2] "\n" text_take()
	} else if (row ~ /^QUOTA\(/) {
		split(row, part, /, */)
		rows[++n] = ".It Ic " text_take() " No = " part[3] "\n" cap(text_take()) "."
	} else if (row ~ /^STUB_|^CHECK/) {
		name = text_take()
		rows[++n] = ".It " name "\n" sentences(text_take())
	}
	if (row ~ /^PROFILE\(/) {
		name = text_take()
		profile[++profiles] = ".It Cm " name "\n" sentences(text_take())
	} else if (row ~ /^FEATURE\(/) {
		name = text_take()
		feature[++features] = ".It Cm " name "\n" text_take() "."
	} else if (row ~ /^LIMIT\(/) {
		name = text_take()
		limit[++limits] = ".It Ic " name " No = Ar number\n" cap(text_take()) "."
	}
	if (row ~ /^WHY/) {
		match(row, /\([A-Z_]+/)
		name = substr(row, RSTART + 1, RLENGTH - 1)
		grade = row ~ /^[A-Z_]+\([A-Z_]+, NOTE/ ? " Pq note" : row ~ /^[A-Z_]+\([A-Z_]+, WAIT/ ? " Pq wait" : ""
		if (row ~ /^WHY_KEY/)
			key[++keys] = why_text(name, "")
		else
			cause[++causes] = why_text(name, grade)
	} else if (row ~ /^TRACE/) {
		name = text_take()
		record[++records] = ".It " name "\n" text_take()
	}
	if (row ~ /^SAME/) {
		verbs_keep(text_take(), "same")
	} else if (row ~ /^DIFFERS/) {
		name = text_take()
		verbs_keep(name, "differs: " text_take())
	}
	row = ""
}

# A table's row may run over several lines: it ends with the next one's beginning.
FILENAME ~ /\.def$/ {
	if (FNR == 1)
		row_keep()
	if (/^STAT\(|^QUOTA\(|^PROFILE\(|^FEATURE\(|^LIMIT\(|^WHY|^TRACE\(|^STUB_|^CHECK\(|^SAME\(|^DIFFERS\(|^SLOT\(|^NEWER_/) {
		row_keep()
		row = $0
	} else if (row != "" && !/^\/\*/) {
		row = row $0
	}
	next
}

/^@(STATS|STUBS|RULES|QUOTAS)@$/ {
	row_keep()
	if (!n)
		exit 1
	for (i = 1; i <= n; i++)
		print rows[i]
	next
}

/^@VERBS@$/ {
	row_keep()
	if (!verbs)
		exit 1
	for (i = 1; i <= verbs; i++)
		print verb[i]
	next
}

/^@PROFILES@$/ { row_keep(); list_print(profile, profiles); next }
/^@FEATURES@$/ { row_keep(); list_print(feature, features); next }
/^@LIMITS@$/ { row_keep(); list_print(limit, limits); next }
/^@CAUSES@$/ { row_keep(); list_print(cause, causes); next }
/^@KEYS@$/ { row_keep(); list_print(key, keys); next }
/^@RECORDS@$/ { row_keep(); list_print(record, records); next }

{ print }
