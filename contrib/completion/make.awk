# SPDX-License-Identifier: MIT
# make.awk - completion of shells from the tables of options in the C sources, and from ctl/command.def:
#
#	awk -f make.awk -v shell=bash -v program=rdmactl SOURCES    for bash, one program
#	awk -f make.awk -v shell=zsh SOURCES                        for zsh, all of them
#	awk -f make.awk -v shell=list SOURCES                       a line for each: program, command or -, long, letter or -, argument
BEGIN {
	programs["daemon/main.c"] = "rdmad"
	programs["run/options.c"] = "rdmad-run"
	programs["sim/main.c"] = "rdmad-sim"
	programs["ctl/rdmactl.c"] = "rdmactl"
	order = "rdmad rdmad-run rdmad-sim rdmactl"
	# Values: words, or f (a file), d (a directory).
	value["--config"] = value["--fault"] = value["--trace-file"] = value["--log"] = value["--capture"] = value["--write"] = "f"
	value["--output"] = value["--record"] = value["--replay"] = value["--socket"] = "f"
	value["--report"] = value["--libs"] = value["--tree"] = value["--out"] = "d"
	value["--io"] = "auto uring epoll"
	value["--log-level"] = "error warning notice info debug"
	value["--sysfs"] = "auto namespace preload"
	value["--as"] = "rdmad ib cx7 cx7-2 bnxt irdma ionic efa apple rxe siw"
	value["--sweep"] = "all drop delay dup nak rnr"
	value["--lesson"] = "list lost-packet lost-ack rnr retry read-middle bad-rkey psn-wrap uc-rc overrun cm"
	value["--sort"] = "rate again flight qpn program"
	value["--format"] = "html svg"
	value["--theme"] = "auto light dark"
	value["--path"] = "loss dup reorder"
	# Arguments of commands: words, or f.
	rest["rdmactl check"] = rest["rdmactl ladder"] = rest["rdmactl replay"] = "f"
	rest["rdmactl fault"] = "add list clear check"
}
FNR == 1 {
	name = FILENAME
	for (p in programs)
		if (name == p || substr(name, length(name) - length(p)) == "/" p)
			of = programs[p]
	if (name ~ /(^|\/)ctl\/[a-z_]+\.c$/ && name !~ /ctl\/rdmactl\.c$/) {
		of = name
		sub(/.*\//, "", of)
		sub(/\.c$/, "", of)
		of = "rdmactl " of
	}
}
/^COMMAND\(/ {
	c = $0
	sub(/^COMMAND\(/, "", c)
	text = c
	sub(/,.*/, "", c)
	sub(/^[^"]*"/, "", text)
	sub(/"\)$/, "", text)
	sub(/ \(rdmactl .*/, "", text)
	gsub(/[':]/, "", text)
	commands = commands " " c
	says[c] = text
}
/_argument,/ {
	line = $0
	while (match(line, /\{ "[a-z-]+", (no|required|optional)_argument, NULL, ('.'|[A-Z_]+) \}/)) {
		split(substr(line, RSTART, RLENGTH), part, /"|, |'/)
		kind = part[4]
		sub(/_argument/, "", kind)
		letter = part[7]
		if (letter !~ /^.$/ || part[2] == "theme")	# that one's is a mark, no letter
			letter = "-"
		n[of]++
		long[of, n[of]] = "--" part[2]
		short[of, n[of]] = letter == "-" ? "-" : "-" letter
		takes[of, n[of]] = kind
		line = substr(line, RSTART + RLENGTH)
	}
}
function key(c) { return n["rdmactl " c] ? "rdmactl " c : "rdmactl show" }

function list(of, shown,   i) {
	for (i = 1; i <= n[of]; i++)
		print shown, long[of, i], short[of, i], takes[of, i]
}

# ---- bash

function words(of,   i, s) {
	for (i = 1; i <= n[of]; i++)
		s = s " " long[of, i] (short[of, i] == "-" ? "" : " " short[of, i])
	return substr(s, 2)
}
# Behind an option with a value: its values, if they are known, or nothing.
function bash_values(of, shown,   i, v, alt) {
	for (i = 1; i <= n[of]; i++) {
		if (takes[of, i] == "no")
			continue
		alt = "\"" shown " " long[of, i] "\"|\"" shown " " long[of, i] "=\"" (short[of, i] == "-" || takes[of, i] == "optional" ? "" : "|\"" shown " " short[of, i] "\"")
		v = value[long[of, i]]
		if (takes[of, i] == "optional")	# only behind =
			alt = "\"" shown " " long[of, i] "=\""
		print "\t" alt ") " (v == "f" ? "kind=-f" : v == "d" ? "kind=-d" : v ? "set -- \"" v "\"" : "set -- ''") ";;"
	}
}
function bash_one(p,   fn, i, list_n, cs) {
	fn = "_" p
	gsub(/-/, "_", fn)
	print "# SPDX-License-Identifier: MIT"
	print "# Completion for bash: " p ". Made from its table of options by contrib/completion/make.awk."
	print fn "()\n{"
	print "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= kind= i"
	print "\t# --option=value comes as three words."
	print "\tif [ \"$cur\" = = ]; then cur= prev=$prev=; elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}=; fi"
	print "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase ${COMP_WORDS[i]} in"
	for (i = 1; i <= n[p]; i++)
		if (takes[p, i] == "required")
			print "\t\t" long[p, i] (short[p, i] == "-" ? "" : "|" short[p, i]) ") [ \"${COMP_WORDS[i+1]}\" = = ] && ((i++)); ((i++));;"
	for (i = 1; i <= n[p]; i++)
		if (takes[p, i] == "optional")
			print "\t\t" long[p, i] ") [ \"${COMP_WORDS[i+1]}\" = = ] && ((i += 2));;"
	print "\t\t-*) ;;\n\t\t*) command=${COMP_WORDS[i]}; break;;\n\t\tesac\n\tdone"
	if (p == "rdmad-run") {
		print "\tif [ -n \"$command\" ] && ((i < COMP_CWORD)); then\t# the program's own"
		print "\t\tif declare -F _command_offset >/dev/null; then _command_offset $i; else mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); fi"
		print "\t\treturn\n\tfi"
	}
	print "\tset --\n\tcase \"$command ${prev}\" in"
	bash_values(p, "")
	if (p == "rdmactl") {
		list_n = split(commands, cs, " ")
		for (i = 1; i <= list_n; i++)
			bash_values(key(cs[i]), cs[i])
	}
	print "\tesac"
	print "\tif [ -z \"$kind\" ] && [ $# -eq 0 ]; then\n\t\tcase \"$command $cur\" in"
	print "\t\t\" -\"*) set -- \"" words(p) "\";;"
	if (p == "rdmactl") {
		for (i = 1; i <= list_n; i++)
			print "\t\t\"" cs[i] " -\"*) set -- \"" words(key(cs[i])) "\";;"
		for (i = 1; i <= list_n; i++)
			if (rest["rdmactl " cs[i]])
				print "\t\t\"" cs[i] " \"*) " (rest["rdmactl " cs[i]] == "f" ? "kind=-f" : "set -- \"" rest["rdmactl " cs[i]] "\"; kind=-f") ";;"
		print "\t\t\" \"*) set -- \"" substr(commands, 2) "\";;"
	}
	if (p == "rdmad-run" || p == "rdmad-sim")
		print "\t\t\" \"*) kind=-" (p == "rdmad-run" ? "c" : "f") ";;"
	print "\t\tesac\n\tfi"
	print "\tmapfile -t COMPREPLY < <([ -z \"$kind\" ] || compgen $kind -- \"$cur\"; [ $# -eq 0 ] || compgen -W \"$1\" -- \"$cur\")\n}"
	print "complete -o filenames -F " fn " " p
}

# ---- zsh

function zsh_value(v) { return v == "f" ? "_files" : v == "d" ? "_files -/" : v ? "(" v ")" : "" }
function zsh_specs(of, tabs,   i, v, s) {
	for (i = 1; i <= n[of]; i++) {
		v = zsh_value(value[long[of, i]])
		s = takes[of, i] == "no" ? "" : (takes[of, i] == "optional" ? "::" : ":") "value:" v
		print tabs "'" long[of, i] (takes[of, i] == "required" ? "=" : takes[of, i] == "optional" ? "=-" : "") s "' \\"
		if (short[of, i] != "-")
			print tabs "'" short[of, i] (takes[of, i] == "optional" ? "-" : "") s "' \\"
	}
}
function zsh_all(   i, list_n, cs) {
	list_n = split(commands, cs, " ")
	print "#compdef rdmad rdmactl rdmad-run rdmad-sim"
	print "# SPDX-License-Identifier: MIT"
	print "# Completion for zsh. Made from the tables of options by contrib/completion/make.awk."
	print "case $service in\nrdmad)\n\t_arguments -s -S \\"
	zsh_specs("rdmad", "\t\t")
	print "\t\t&& return 0\n\t;;\nrdmad-run)\n\t_arguments -s -S \\"
	zsh_specs("rdmad-run", "\t\t")
	print "\t\t'(-):program:_command_names -e' '*::arguments:_normal' && return 0\n\t;;\nrdmad-sim)\n\t_arguments -s -S \\"
	zsh_specs("rdmad-sim", "\t\t")
	print "\t\t'1:topology:_files' && return 0\n\t;;\nrdmactl)"
	print "\tlocal curcontext=$curcontext state line\n\ttypeset -A opt_args\n\t_arguments -C -s -S \\"
	zsh_specs("rdmactl", "\t\t")
	printf "\t\t'1:command:(("
	for (i = 1; i <= list_n; i++)
		printf("%s%s\\:\"%s\"", (i > 1 ? " " : ""), cs[i], says[cs[i]])
	print "))' '*::argument:->rest' && return 0\n\tcase $line[1] in"
	for (i = 1; i <= list_n; i++) {
		print "\t" cs[i] ")\n\t\t_arguments -s -S \\"
		zsh_specs(key(cs[i]), "\t\t\t")
		v = rest["rdmactl " cs[i]]
		print "\t\t\t" (v == "f" ? "'*:file:_files'" : v ? "'1:what:(" v ")' '*:file:_files'" : "'*:argument:'") "\n\t\t;;"
	}
	print "\tesac\n\t;;\nesac"
}

END {
	list_n = split(commands, cs, " ")
	if (shell == "bash") {
		bash_one(program)
	} else if (shell == "zsh") {
		zsh_all()
	} else {
		m = split(order, ps, " ")
		for (i = 1; i <= m; i++)
			list(ps[i], ps[i] " -")
		for (i = 1; i <= list_n; i++)
			list(key(cs[i]), "rdmactl " cs[i])
	}
}
