/* SPDX-License-Identifier: MIT */
/* packet.js - one packet: each header, each field, each bit; and what can be done to it while it is under way. */
"use strict";

const SERVICE = { 0: "RC", 1: "UC", 3: "UD", 4: "CNP", 5: "XRC" };
const SHORT = { PadCnt: "Pad", service: "svc" };	/* where a cell is narrow */
const AETH = { 0: "ACK", 1: "RNR NAK", 3: "NAK" };

function make(parent, name, attrs, text) {
	const e = document.createElement(name);

	for (const k in attrs || {})
		if (k.startsWith("on"))
			e[k] = attrs[k];
		else if (attrs[k] !== false && attrs[k] !== undefined)
			e.setAttribute(k, attrs[k]);
	if (text !== undefined)
		e.textContent = text;
	if (parent)
		parent.appendChild(e);
	return e;
}

function hex(v, nbits) {
	return "0x" + v.toString(16).padStart(Math.ceil(nbits / 4), "0");
}

/* The value as it stands in its cell. */
function fieldShort(f, v) {
	if (/Key|QP|SRQ|VA|ICRC|Imm|syndrome/.test(f.name) && f.bits > 8)
		return hex(v, f.bits);
	return f.bits > 24 ? v.toString() : f.name === "service" || f.name === "kind" ? v.toString(2).padStart(3, "0") : v.toString();
}

function whose(w, qpn) {
	for (const p of w.pairs)
		for (const q of p.qp)
			if (q && q.qpn === qpn)
				return ` a queue pair of the ${NODE[q.node]}.`;
	return qpn === 1 ? " The connection manager's." : "";
}

/* The meaning of the value here, in a sentence; "": no more than the field says. */
function meaning(w, p, header, f, v) {
	const n = Number(v), from = w.pairs.flatMap((q) => q.qp).find((q) => q && q.dest === p.dest && q.node === p.from);

	switch (header + "." + f.name) {
	case "BTH.service": return SERVICE[n] || "a service that RoCE does not have";
	case "BTH.operation": return p.op ? p.op.name.replace(/^[A-Z]+_/, "").replace(/_/g, " ") : "no such operation";
	case "BTH.SE": return n ? "yes" : "no";
	case "BTH.A": return n ? "yes: an ACK is asked for" : "no";
	case "BTH.PadCnt": return n ? `${n} zero bytes follow the payload` : "no padding";
	case "BTH.P_Key": return n === 0xffff ? "the default partition, full member" : n & 0x8000 ? "full member" : "limited member";
	case "BTH.DestQP": return n + "." + whose(w, n);
	case "BTH.PSN": return from && p.op && p.op.role < 3 && p.dest !== 1 ? `${n}: number ${(n - from.first) & 0xffffff} since the connection began` : String(n);
	case "DETH.SrcQP": return n + "." + whose(w, n);
	case "RETH.DMALen": return `${n} bytes in all`;
	case "AETH.kind": return AETH[n] || "reserved";
	case "AETH.value": return p.syndrome >> 5 === 0 ? (n === 31 ? "no credits are told" : `credits, code ${n}: receives for ${tables.credits[n]} requests`) : p.syndrome >> 5 === 3 ? (NAK[n] || "reserved") :
		p.syndrome >> 5 === 1 ? `code ${n}: wait ${duration(tables.rnr[n])}` : "reserved";
	case "AETH.MSN": return `${n} request${n === 1 ? "" : "s"} completed`;
	}
	return "";
}

function wordsOf(p) {
	return p.state === "flying" ? (p.sent > BEGIN_NS && p.sent > game.w.now ? "about to leave" : "under way") : p.state === "lost" ? "lost" : "arrived";
}

let openField = "";	/* "BTH.PSN" */

function explain(box, w, p, part, f) {
	const at = 8 * part.at + f.at, v = bits(p, at, f.bits), e = make(box, "div", { class: "explain", id: "explain" });
	const line = make(e, "div"), m = meaning(w, p, part.header.name, f, v);

	make(line, "b", {}, f.name + " ");
	line.append(`${f.bits} bit${f.bits > 1 ? "s" : ""} from bit ${f.at} of the ${part.header.name}: `);
	make(line, "b", {}, f.bits > 1 ? `${hex(v, f.bits)}${f.bits <= 64 ? " = " + v : ""}` : String(v));
	if (f.bits <= 64) {
		const b = make(e, "div", { class: "bits", role: "group", "aria-label": "its bits, the highest first" });

		for (let i = 0; i < f.bits; i++) {
			const one = bits(p, at + i, 1) === 1n;

			make(b, "button", { class: one ? "one" : "", disabled: p.state === "flying" ? false : "", title: p.state === "flying" ? "flip this bit" : "it is not under way",
				"aria-label": `bit ${f.bits - 1 - i}: ${one ? 1 : 0}, flip`, "data-bit": at + i, onclick: () => game.act(`c:${p.i}:${at + i}`) }, one ? "1" : "0");
		}
	}
	if (m)
		make(e, "p", {}, m[0].toUpperCase() + m.slice(1) + (m.endsWith(".") ? "" : "."));
	make(e, "p", { class: "hint" }, f.about);
}

function headerGrid(panel, w, p, part) {
	const h = part.header, box = make(panel, "div", { class: "header" });

	make(box, "b", {}, h.name);
	make(box, "span", { title: h.about }, `${h.title}, ${h.len} bytes`);
	const grid = make(panel, "div", { class: "fields", role: "group", "aria-label": h.title });
	let open = null;

	for (const f of h.fields) {
		const v = bits(p, 8 * part.at + f.at, f.bits), key = h.name + "." + f.name, on = openField === key + "." + f.at;
		const width = f.bits >= 32 ? 32 : f.bits, b = make(grid, "button", { class: "field" + (width < 4 ? " tiny" : ""),
			style: `grid-column: ${f.at % 32 + 1} / span ${width}`, "aria-expanded": on, "data-field": key, "aria-label": `${h.name} ${f.name}: ${fieldShort(f, v)}`,
			title: f.name, onclick: () => {
				openField = on ? "" : key + "." + f.at;
				const box = document.getElementById(game.tab), top = box.scrollTop;

				SHOW[game.tab]();
				box.scrollTop = top;
				box.querySelector(`[data-field="${key}"]`).focus({ preventScroll: true });
			} });

		make(b, "i", {}, f.bits < 5 && SHORT[f.name] || f.name);
		make(b, "b", {}, f.name === "reserved" && v === 0n ? "0" : fieldShort(f, v));
		if (on)
			open = f;
	}
	if (open)
		explain(panel, w, p, part, open);
}

function hands(panel, p) {
	const row = make(panel, "div", { class: "row hands", role: "group", "aria-label": "what happens to it" });
	const add = (text, key, title, token) => make(row, "button", { "aria-keyshortcuts": key, title: `${title} (${key})`, "data-hand": key, onclick: () => game.act(token) }, text);

	add("Drop", "x", "it never arrives", "x:" + p.i);
	add("Delay 10 µs", "d", "others overtake it", `d:${p.i}:10000`);
	add("Duplicate", "w", "it arrives twice", "t:" + p.i);
	add("Corrupt", "c", "one bit of it is flipped; or choose the bit below", `c:${p.i}:${p.len ? 8 * p.payload + 3 : 79}`);
	add("At once", "n", "it overtakes the others", "n:" + p.i);
}

function showPacket() {
	const panel = document.getElementById("packet");

	panel.textContent = "";
	if (!game.w.packets[game.chosen]) {
		make(panel, "h2", {}, "No packet is chosen");
		make(panel, "p", { class: "hint" }, "Click an arrow in the diagram, or go there with Tab and choose by the up and down keys. Every field of its headers is explained here, and while it is under way you decide what becomes of it.");
		return;
	}
	onePacket(panel);
}

function onePacket(panel) {
	const w = game.w, p = w.packets[game.chosen], h = make(panel, "h2", { class: "kind " + p.css }, packetName(p) + " ");

	make(h, "small", {}, `packet ${p.i}, PSN ${p.psn}, ${NODE[p.from]} → ${NODE[p.to]}, ${wordsOf(p)}`);
	if (p.state === "flying")
		hands(panel, p);
	if (p.said)
		make(panel, "p", { class: "says" + (p.state === "lost" || p.bad ? " bad" : "") }, p.said.replace(/ us\b/g, " µs"));
	make(panel, "p", { class: "hint" }, `Left ${clock(p.sent)}, ${p.state === "lost" ? "lost" : (p.state === "flying" ? "arrives " : "arrived ") + clock(p.at)}. ` +
		`${p.bytes.length} bytes behind the UDP header (port 4791)${p.iter > 1 ? `; transmission ${p.iter} of this PSN` : ""}. Choose a field to read it bit by bit.`);
	for (const part of p.parts.slice(0, -1))
		headerGrid(panel, w, p, part);
	if (p.len) {
		const box = make(panel, "div", { class: "header" });

		make(box, "b", {}, "Payload");
		make(box, "span", {}, `${p.len} bytes${p.pad ? " and " + p.pad + " of padding" : ""}`);
		make(panel, "div", { class: "bytes" }, [...p.bytes.slice(p.payload, p.payload + Math.min(32, p.len))].map((b) => b.toString(16).padStart(2, "0")).join(" ") + (p.len > 32 ? " …" : ""));
	}
	headerGrid(panel, w, p, p.parts[p.parts.length - 1]);
}
