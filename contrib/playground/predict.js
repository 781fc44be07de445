/* SPDX-License-Identifier: MIT */
/*
 * predict.js - "which packet comes next?"  The answer is found by a second core that replays the scenario and goes on; the wrong
 * answers are those that a student may think of.
 */
"use strict";

const predict = { on: false, asked: 0, right: 0, open: null };

function askName(p) {
	return `${packetName(p)}, PSN ${p.psn}, from the ${NODE[p.from]}`;
}

/* The first packet that will be sent from here on, and after how many steps; null: none. */
function lookAhead() {
	predict.shadow = predict.shadow || new Scenario(new Core(game.module));
	predict.shadow.load(game.s.list());
	const had = game.w.packets.length;

	for (let k = 1; k < 64; k++) {
		if (predict.shadow.act("s"))
			return null;
		const w = predict.shadow.core.world();

		if (w.packets.length > had)
			return { p: w.packets[had], steps: k, w };
	}
	return null;
}

/* Wrong answers: other kinds with the same PSN, the same kind with its neighbours, and nothing at all. */
function others(right) {
	const p = right.p, at = NODE[p.from], peer = NODE[p.to], add = (n) => (p.psn + n) & 0xffffff;
	const last = game.w.packets.filter((q) => q.from === p.to && q.dest !== 1).pop();
	const list = [`ACK, PSN ${p.psn}, from the ${at}`, `ACK, PSN ${add(1)}, from the ${at}`, `NAK PSN sequence, PSN ${p.psn}, from the ${at}`, `NAK PSN sequence, PSN ${add(1)}, from the ${at}`,
		`RNR NAK, PSN ${p.psn}, from the ${at}`, `${packetName(p)}, PSN ${add(1)}, from the ${at}`, `${packetName(p)}, PSN ${add(-1)}, from the ${at}`];

	if (last && last.op && last.op.role < 3)
		list.unshift(`${packetName(last)}, PSN ${last.psn}, from the ${peer}, again`);
	return [...new Set(list)].filter((t) => t.replace(", again", "") !== askName(p));
}

/* An order that is the same for the same scenario. */
function shuffled(list, seed) {
	const a = list.slice();

	for (let i = a.length - 1; i > 0; i--) {
		seed = (seed * 1103515245 + 12345) >>> 0;
		const j = (seed >>> 8) % (i + 1);

		[a[i], a[j]] = [a[j], a[i]];
	}
	return a;
}

function ask() {
	const next = lookAhead(), box = document.getElementById("ask"), seed = game.s.list().join().length * 7 + game.w.packets.length;

	if (!next)
		return false;
	predict.open = next;
	box.hidden = false;
	box.textContent = "";
	make(box, "h2", { id: "ask-title" }, "Which packet is sent next?");
	const arriving = game.w.packets.filter((p) => p.state === "flying").sort((a, b) => a.at - b.at)[0];

	make(box, "p", { class: "hint" }, arriving ? `The next to arrive is ${packetWords(arriving)}.` : "Nothing is under way; timers run.");
	const f = make(box, "form", { onsubmit: (e) => { e.preventDefault(); answered(f); } }), set = make(f, "fieldset", { "aria-labelledby": "ask-title" });

	for (const t of shuffled([askName(next.p), ...shuffled(others(next), seed).slice(0, 3)], seed + 5)) {
		const l = make(set, "label");

		make(l, "input", { type: "radio", name: "guess", value: t, required: "" });
		l.append(t);
	}
	const row = make(f, "div", { class: "row" });

	make(row, "button", { class: "main", id: "ask-check" }, "Check");
	make(row, "button", { type: "button", onclick: () => proceed() }, "Show me");
	set.querySelector("input").focus();
	return true;
}

function answered(f) {
	const next = predict.open, right = askName(next.p), guess = new FormData(f).get("guess"), good = guess === right;

	if (predict.told) {
		proceed();
		return;
	}
	predict.told = true;
	predict.asked++;
	predict.right += good;
	for (const l of f.querySelectorAll("label")) {
		const v = l.querySelector("input").value;

		l.classList.toggle("right", v === right);
		l.classList.toggle("wrong", v === guess && !good);
	}
	const p = make(f, "p", { role: "status", id: "verdict" }, `${good ? "Right." : "No: " + right + "."} ${next.p.said ? next.p.said.replace(/\n/g, "; ") + "." : ""} ${predict.right} of ${predict.asked}.`);

	f.insertBefore(p, f.lastElementChild);
	document.getElementById("ask-check").textContent = "Go on";
	document.getElementById("ask-check").focus();
}

function proceed() {
	const next = predict.open;

	closeAsk();
	game.act("s" + next.steps);
	game.choose(next.p.i);
	document.getElementById("step").focus();
}

function closeAsk() {
	predict.open = null;
	predict.told = false;
	document.getElementById("ask").hidden = true;
}
