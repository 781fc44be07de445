/* SPDX-License-Identifier: MIT */
/* panels.js - work to be posted, the state of the queue pairs, the log. */
"use strict";

function choice(parent, label, name, options, value) {
	const l = make(parent, "label", {}, label + " "), s = make(l, "select", { name });

	for (const [v, t] of options)
		make(s, "option", { value: v, selected: String(v) === String(value) ? "" : false }, t);
	return s;
}

function number(parent, label, name, value, min, max) {
	return make(make(parent, "label", {}, label + " "), "input", { type: "number", name, value, min, max });
}

function pairName(p, i) {
	return `${i + 1}: ${p.cm ? "RC by CM" : TYPE_NAME[p.type]}, ${NODE[p.qp[0].node]} – ${NODE[p.qp[1].node]}`;
}

/* Kept while the panel is drawn anew: all that was typed. */
const typed = {};

function form(panel, id, title, send) {
	const f = make(panel, "form", { id, onsubmit: (e) => {
		e.preventDefault();
		for (const x of f.elements)
			if (x.name)
				typed[id + x.name] = x.type === "checkbox" ? x.checked : x.value;
		send(new FormData(f));
	} });

	make(f, "h3", {}, title);
	return f;
}

function remember(f) {
	for (const x of f.elements) {
		const v = typed[f.id + x.name];

		if (!x.name || v === undefined)
			continue;
		if (x.type === "checkbox")
			x.checked = v;
		else if (x.tagName !== "SELECT" || [...x.options].some((o) => o.value === v))
			x.value = v;
		x.addEventListener("change", () => { typed[f.id + x.name] = x.type === "checkbox" ? x.checked : x.value; });
	}
	for (const x of f.elements)
		if (x.name)
			x.addEventListener("change", () => { typed[f.id + x.name] = x.type === "checkbox" ? x.checked : x.value; });
}

function connectForm(panel, w) {
	const f = form(panel, "connect", "A connection", (d) => game.act(["q", d.get("type"), d.get("a"), d.get("b"), d.get("mtu"), d.get("psn"), 5000, d.get("timeout"),
		d.get("retry"), d.get("rnr"), d.get("timer")].join(":")));
	const row = make(f, "div", { class: "row" }), ends = w.nodes.map((n, i) => [i, NODE[i]]);

	choice(row, "of type", "type", [["rc", "RC, reliable"], ["uc", "UC, unreliable"], ["ud", "UD, datagrams"], ["cm", "RC, by the CM"]], "rc");
	choice(row, "from", "a", ends, 0);
	choice(row, "to", "b", ends, 1);
	const more = make(f, "details"), r2 = make(more, "div", { class: "row" });

	make(more, "summary", {}, "its attributes");
	more.append(r2);
	choice(r2, "path MTU", "mtu", [[256, 256], [512, 512], [1024, 1024]], 256);
	number(r2, "first PSN", "psn", 1000, 0, 16777215);
	number(r2, "timeout", "timeout", 14, 0, 31);
	number(r2, "retry_cnt", "retry", 7, 0, 7);
	number(r2, "rnr_retry", "rnr", 7, 0, 7);
	number(r2, "min_rnr_timer", "timer", 12, 0, 31);
	make(f, "div", { class: "row" }).append(make(null, "button", { class: w.pairs.length ? "" : "main" }, "Connect"));
	remember(f);
}

function postForm(panel, w) {
	const f = form(panel, "post", "A send", (d) => {
		const [pair, side] = d.get("at").split("."), op = d.get("op");

		game.act(["p", pair, side, op, op === "CMP_SWP" || op === "FETCH_ADD" ? 8 : d.get("len"), d.get("imm") || 0, d.get("bad") ? 1 : 0, d.get("arg") || 0, d.get("swap") || 0].join(":"));
	});
	const row = make(f, "div", { class: "row" });
	const at = choice(row, "on", "at", w.pairs.flatMap((p, i) => [0, 1].map((s) => [`${i}.${s}`, `${i + 1}: ${TYPE_NAME[p.type]} of the ${NODE[p.qp[s].node]}`])), "0.0");
	const op = choice(row, "", "op", [], ""), r2 = make(f, "div", { class: "row" });

	op.setAttribute("aria-label", "operation");
	number(r2, "bytes", "len", 600, 0, 16384);
	number(r2, "immediate", "imm", 42, 0, 4294967295);
	number(r2, "add / compare", "arg", 1, 0, 4294967295);
	number(r2, "swap", "swap", 7, 0, 4294967295);
	make(make(r2, "label"), "input", { type: "checkbox", name: "bad" }).after(" wrong rkey");
	const fit = () => {
		const p = w.pairs[Number(at.value.split(".")[0])], before = typed["postop"] || op.value;

		op.textContent = "";
		for (const k of Object.keys(tables.wr))
			if (tables.wr[k].on >> p.type & 1 && ["WRITE", "WRITE_IMM", "SEND", "SEND_IMM", "READ", "CMP_SWP", "FETCH_ADD"].includes(tables.wr[k].name))
				make(op, "option", { value: tables.wr[k].name }, tables.wr[k].name.replace(/_/g, " "));
		op.value = [...op.options].some((o) => o.value === before) ? before : "SEND";
		shown();
	}, shown = () => {
		const o = op.value, atomic = o === "CMP_SWP" || o === "FETCH_ADD";

		for (const [name, on] of [["len", !atomic], ["imm", o.endsWith("_IMM")], ["arg", atomic], ["swap", o === "CMP_SWP"], ["bad", !o.startsWith("SEND")]])
			f.elements[name].closest("label").hidden = !on;
	};

	remember(f);
	at.addEventListener("change", fit);
	op.addEventListener("change", shown);
	fit();
	make(f, "div", { class: "row" }).append(make(null, "button", { class: "main" }, "Post"));
}

function recvForm(panel, w) {
	const f = form(panel, "receive", "Receives", (d) => game.act(["v", ...d.get("at").split("."), 4096, d.get("count")].join(":"))), row = make(f, "div", { class: "row" });

	number(row, "number", "count", 1, 1, 16);
	choice(row, "on", "at", w.pairs.flatMap((p, i) => [1, 0].map((s) => [`${i}.${s}`, `${i + 1}: ${TYPE_NAME[p.type]} of the ${NODE[p.qp[s].node]}`])), "0.1");
	make(row, "button", {}, "Post");
	remember(f);
}

function rulesForm(panel) {
	const d = make(panel, "details", { open: game.s.rules ? "" : false }), f = form(d, "rules", "Faults, as in rdmad-fault(5)", (x) => game.act("r:" + encodeURIComponent(x.get("text"))));

	make(d, "summary", {}, "faults by rules");
	d.append(f);
	make(f, "textarea", { name: "text", rows: 6, spellcheck: "false", "aria-label": "rules, YAML", placeholder: "rules:\n- match: {packet: write, psn: +2, iter: 1}\n  do: drop" }).value = game.s.rules;
	make(f, "div", { class: "row" }).append(make(null, "button", {}, "Apply"));
}

function showWork() {
	const panel = document.getElementById("work"), w = game.w;

	panel.textContent = "";
	make(panel, "h2", {}, "Work of your own");
	const row = make(panel, "div", { class: "row no-print" }, "Adapters: ");

	for (const n of [2, 3])
		make(row, "button", { "aria-pressed": w.nodes.length === n, onclick: () => game.load(n === 3 ? ["h3"] : []) }, String(n));
	make(row, "span", { class: "hint" }, "(from the beginning)");
	connectForm(panel, w);
	if (w.pairs.length) {
		recvForm(panel, w);
		postForm(panel, w);
		w.pairs.forEach((p, i) => {
			if (p.cm)
				make(make(panel, "div", { class: "row no-print" }), "button", { onclick: () => game.act("u:" + i) }, `Disconnect ${i + 1}`);
		});
	}
	rulesForm(panel);
	if (w.pairs.length)
		make(panel, "p", { class: "hint" }, "Then Step, and watch. A SEND needs a receive at its peer; WRITE, READ and atomics do not.");
}

/* ---- state ---- */

function listOf(parent, rows, cls) {
	const dl = make(parent, "dl", cls ? { class: cls } : {});

	for (const [k, v, t] of rows) {
		make(dl, "dt", t ? { title: t } : {}, k);
		make(dl, "dd", {}, String(v));
	}
}

function endCard(parent, p, q) {
	const box = make(parent, "div"), h = make(box, "h2", {}, NODE[q.node] + " "), count = (a, b) => (b - a) & 0xffffff;

	make(h, "span", { class: "badge " + q.state }, q.state);
	if (p.type === 2) {
		const all = Math.max(8, count(q.first, q.next)), bar = make(box, "div", { class: "window", title: "acknowledged, in flight", role: "img",
			"aria-label": `${count(q.first, q.acked)} packets acknowledged, ${count(q.acked, q.next)} in flight` });

		make(bar, "i", { style: `width:${100 * count(q.first, q.acked) / all}%` });
		make(bar, "i", { style: `width:${100 * count(q.acked, q.next) / all}%` });
	}
	const rows = [["QP", "0x" + q.qpn.toString(16)]];

	if (p.type !== 4)
		rows.push(["next PSN", q.next, "of the next new request"]);
	if (p.type === 2)
		rows.push(["oldest not ACKed", q.acked === q.next ? "none" : q.acked], ["in flight", `${q.inflight} B of ${q.window}`, "all of the requests not acknowledged; the window of the path"]);
	if (p.type !== 4)
		rows.push(["expects PSN", q.expects, "as responder"], ["MSN", q.msn, "requests carried out"]);
	if (p.type === 2)
		rows.push(["retries left", `${q.retry} of ${p.retry}`], ["RNR retries left", p.rnr === 7 ? "no end" : `${q.rnr} of ${p.rnr}`], ["sent again", q.retrans + " packets"]);
	rows.push(["sends waiting", q.sends], ["receives posted", q.recvs]);
	listOf(box, rows);
}

function showState() {
	const panel = document.getElementById("state"), w = game.w;

	panel.textContent = "";
	make(panel, "h2", {}, "Queue pairs");
	if (!w.pairs.length)
		make(panel, "p", { class: "hint" }, "There are none yet.");
	stateCards(panel);
	w.nodes.forEach((n, i) => {
		const d = make(panel, "details");

		make(d, "summary", {}, `${NODE[i]}: ${n.timer < 0 ? "no timer runs" : "timer in " + duration(Math.max(0, n.timer - w.now))} · counters`);
		listOf(d, [["word for atomics", n.word], ["result of atomics", n.result], ...Object.entries(n.counters)], "wide");
	});
}

function stateCards(panel) {
	game.w.pairs.forEach((p, i) => {
		const card = make(panel, "div", { class: "card" });

		make(card, "h2", {}, pairName(p, i));
		const ends = make(card, "div", { class: "ends" });

		p.qp.forEach((q) => { if (q) endCard(ends, p, q); });
		if (p.type === 2)
			make(card, "p", { class: "hint" }, `path MTU ${p.mtu} · timeout ${p.timeout} (${p.timeout ? duration(4096 * 2 ** p.timeout) : "never"}) · retry_cnt ${p.retry} · rnr_retry ${p.rnr} · min_rnr_timer ${p.rnr_timer}`);
	});
}

/* ---- log ---- */

const EVENTS = { 1: "QP_FATAL", 2: "QP_REQ_ERR", 3: "QP_ACCESS_ERR", 4: "COMM_EST", 5: "SQ_DRAINED", 16: "QP_LAST_WQE_REACHED" };

function noteWords(n) {
	switch (n.kind) {
	case "post": return `posts send ${n.id}: ${tables.wr[n.op].name.replace(/_/g, " ")}${n.len ? `, ${n.len} bytes` : ""}`;
	case "recv": return `posts receive ${n.id}, ${n.len} bytes`;
	case "cqe": return `${n.send ? "send" : "receive"} ${n.id} completes: ${STATUS[n.status] || n.status}${!n.status && !n.send ? `, ${n.len} bytes` : ""}${n.flags & 2 ? `, immediate ${n.imm}` : ""}`;
	case "event": return "asynchronous event " + (EVENTS[n.type] || n.type);
	case "modify": return `QP 0x${n.qpn.toString(16)} cannot be modified to ${n.to} (EINVAL)`;
	case "cm": return "CM event " + n.what;
	case "why": return n.what + ". Hint: " + n.hint + ".";
	}
	switch (n.what) {
	case "state": return `QP 0x${n.qpn.toString(16)}: ${n.from} → ${n.to}`;
	case "timeout": return `no ACK of PSN ${n.psn} in time; ${n.a} retries left`;
	case "early": return `PSN ${n.psn} once more before its time: after some round trips without an answer it may be lost`;
	case "again": return `goes back to PSN ${n.psn}: ${n.op === 1 ? "a response was lost" : "a NAK says so"}; ${n.b} packets again`;
	case "nak-rx": return `a NAK for PSN ${n.psn}`;
	case "rnr-rx": return `the peer is not ready for PSN ${n.psn}: waits`;
	case "nak-tx": return `says NAK for PSN ${n.psn}`;
	case "rnr-tx": return `says RNR NAK for PSN ${n.psn}: no receive is posted`;
	case "dup": return `PSN ${n.psn} was carried out before: a duplicate`;
	case "gap": return `PSN ${n.psn} came, ${n.b} was expected`;
	case "flush": return `${n.a} sends and ${n.b} receives end with the QP`;
	}
	return "";
}

function showLog() {
	const panel = document.getElementById("log");

	panel.textContent = "";
	make(panel, "h2", {}, "What happened");
	if (!logList(panel, Infinity))
		make(panel, "p", { class: "hint" }, "Nothing yet.");
}

/* The last lines of it; how many. */
function logList(panel, most) {
	const all = game.w.notes.map((n) => [n, noteWords(n)]).filter((x) => x[1]), list = make(panel, "ol", { class: "log" });

	for (const [n, t] of all.slice(-most)) {
		const li = make(list, "li", { class: n.kind === "why" || n.kind === "modify" || (n.kind === "cqe" && n.status) || n.to === "ERR" ? "bad" : "" });

		make(li, "time", {}, clock(n.at));
		make(li, "em", {}, NODE[n.node]);
		make(li, "span", {}, t);
	}
	return all.length;
}
