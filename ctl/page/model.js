/* SPDX-License-Identifier: MIT */
/* model.js - which rows there are (trains, quiet stretches and repeated RNR NAKs folded), and where each is. */
"use strict";

const ROW = 27, SLOPE = 10, TOP = 18, GAP = 34;
let COLUMN = 560, RAIL = 104, LEFT = 96, narrow = false;
const TRAIN_MIN = 4, CYCLES_MIN = 3, QUIET_MIN = 18, QUIET_KEEP = 4;

const data = JSON.parse(document.getElementById("data").textContent);
const view = { zoom: 1, scaled: false, fold: true, open: new Set(), shown: data.connections.map(() => true) };

function remarkable(r) {
	return !!(r.fate || r.again || r.say || (r.dup && r.kind !== "ack") || r.n ||
		["nak", "rnr", "cm", "other"].includes(r.kind));
}

/* It is remarkable in the same way as all its neighbours: they may be one train. */
function common(r) {
	return !r.say && !r.n && (!r.fate || r.fate === "discarded") && !["nak", "rnr", "cm", "other"].includes(r.kind);
}

/* Does b go on where a was, and look the same? */
function follows(a, b) {
	return a.c === b.c && a.from === b.from && a.kind === b.kind && !a.answer === !b.answer && b.rel === a.rel + 1 &&
		a.fate === b.fate && !a.again === !b.again && a.dup === b.dup && common(a) && common(b);
}

/* A run of items as one: it is folded unless it was opened. */
function group(kind, items) {
	const first = items[0], last = items[items.length - 1];

	return { kind, items, first: first.first, last: last.last, key: kind + first.first };
}

/* From item i on, behind an RNR NAK: how many items in which it was sent again and had the same answer. */
function cycles(items, i) {
	const nak = i > 0 && data.rungs[items[i - 1].first];
	let n = 0, end = i;

	for (let k = i; nak && nak.kind === "rnr" && k < items.length; k++) {
		const r = data.rungs[items[k].first];

		if (r.c === nak.c && r.from !== nak.from && (r.again || r.fate === "discarded"))
			continue;
		if (r.c !== nak.c || r.kind !== "rnr" || r.rel !== nak.rel || r.from !== nak.from)
			break;
		n++;
		end = k + 1;
	}
	return n < CYCLES_MIN ? 0 : end - i;
}

function trains(items) {
	const out = [];

	for (let i = 0; i < items.length;) {
		const again = cycles(items, i);
		let k = i + 1;

		if (again) {
			out.push(group("cycles", items.slice(i, i + again)));
			i += again;
			continue;
		}

		while (k < items.length && follows(data.rungs[items[k - 1].first], data.rungs[items[k].first]))
			k++;
		if (k - i >= TRAIN_MIN)
			out.push(group("train", items.slice(i, k)));
		else
			out.push(...items.slice(i, k));
		i = k;
	}
	return out;
}

function calm(item) {
	return item.kind !== "cycles" && !remarkable(data.rungs[item.first]);
}

function quiets(items) {
	const out = [];

	for (let i = 0; i < items.length;) {
		let k = i;

		while (k < items.length && calm(items[k]))
			k++;
		if (k - i >= QUIET_MIN) {
			out.push(...items.slice(i, i + QUIET_KEEP));
			out.push(group("quiet", items.slice(i + QUIET_KEEP, k - QUIET_KEEP)));
			out.push(...items.slice(k - QUIET_KEEP, k));
		} else {
			out.push(...items.slice(i, k));
		}
		if (k < items.length)
			out.push(items[k++]);
		i = k;
	}
	return out;
}

/* Items with groups that are open in place of their group; depth-first. */
function flatten(items, out) {
	for (const it of items) {
		if (it.kind === "rung" || !view.open.has(it.key)) {
			out.push(it);
			continue;
		}
		const inner = [];

		flatten(it.items, inner);
		inner[0] = Object.assign({}, inner[0], { closes: (inner[0].closes || []).concat(it.key) });
		out.push(...inner);
	}
	return out;
}

function rows() {
	let items = [];

	data.rungs.forEach((r, i) => {
		if (view.shown[r.c])
			items.push({ kind: "rung", first: i, last: i });
	});
	if (view.fold)
		items = flatten(quiets(trains(items)), []);
	return items;
}

/* A silence is worth a row of its own where it is long beside those around it. */
function silence(list) {
	const d = [];

	for (let i = 1; i < list.length; i++)
		d.push(data.rungs[list[i].first].t - data.rungs[list[i - 1].last].t);
	d.sort((a, b) => a - b);
	return Math.max(8 * (d[Math.floor(d.length * 0.7)] || 0), 1000);
}

/* Gives each row its y; the points (time, y) between which arrivals lie. */
function layout() {
	const list = rows(), limit = silence(list), h = ROW * view.zoom, points = [];
	let y = TOP, t0 = list.length ? data.rungs[list[0].first].t : 0, before = null;

	list.forEach((it) => {
		const r = data.rungs[it.first], end = data.rungs[it.last];

		if (view.scaled) {
			it.y = TOP + (r.t - t0) * view.scale;
			it.h = it.kind === "rung" ? 0 : (end.t - r.t) * view.scale;
			y = it.y + it.h + ROW;
		} else {
			it.gap = before !== null && r.t - before > limit ? r.t - before : 0;
			y += it.gap ? GAP : 0;
			it.y = y;
			it.h = it.kind === "rung" ? 0 : it.kind === "train" ? Math.max(18, h * 0.7) : 34;
			y += it.h + h;
		}
		points.push([r.t, it.y]);
		if (it.h)
			points.push([end.t, it.y + it.h]);
		before = end.t;
	});
	return { list, points, height: y + 30 };
}

/* Where a time is, between the rows. */
function y_at(points, t) {
	let lo = 0, hi = points.length - 1;

	while (lo < hi) {
		const mid = (lo + hi + 1) >> 1;

		if (points[mid][0] <= t)
			lo = mid;
		else
			hi = mid - 1;
	}
	const a = points[lo], b = points[lo + 1];

	if (!b || b[0] === a[0])
		return a[1] + (b ? 0 : ROW);
	return a[1] + (b[1] - a[1]) * Math.min(1, (t - a[0]) / (b[0] - a[0]));
}

/* A small screen has one connection from edge to edge, with marks in place of words. */
function fit(width) {
	narrow = width < 640;
	LEFT = narrow ? 62 : 96;
	RAIL = narrow ? 40 : 104;
	COLUMN = narrow ? Math.max(280, width - LEFT) : 560;
}

/* ---- words ---- */

const marks = { again: "↻", discarded: "∅", refused: "✗", duplicate: "≡", "nothing new": "≡" };

function mark(name) {
	return narrow ? marks[name] : name;
}

function duration(ns) {
	const u = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];

	return Number((ns / u[0]).toPrecision(3)) + " " + u[1];
}

function clock(ns) {
	if (data.span < 2e6)
		return (ns / 1e3).toFixed(2) + " µs";
	return data.span < 2e9 ? (ns / 1e6).toFixed(3) + " ms" : (ns / 1e9).toFixed(6) + " s";
}

function size(n) {
	if (n < 10000)
		return n + " B";
	return n < 10 << 20 ? Number((n / 1024).toPrecision(3)) + " KiB" : Number((n / 1048576).toPrecision(4)) + " MiB";
}

function hex(n) {
	return "0x" + n.toString(16);
}

function qp(side) {
	return side.qpn ? "QP " + hex(side.qpn) : "QP not known";
}

/* SEND_FIRST: "SEND FIRST"; of the answers to READ: "RESP". */
function opcode(r) {
	if (r.kind === "nak" && r.op !== "ACKNOWLEDGE")
		return r.op;
	if (r.kind === "ack" || r.kind === "nak" || r.kind === "rnr")
		return { ack: "ACK", nak: "NAK", rnr: "RNR NAK" }[r.kind];
	return r.op.replace("READ_RESP", "READ RESP").replace(/_/g, " ").replace(" REQUEST", "");
}

/* A few words behind an answer that asks for something. */
function asks(r) {
	if (r.kind === "nak" && r.op === "ACKNOWLEDGE")
		return "go back";
	const wait = r.kind === "rnr" && /again in (.*)$/.exec(r.note || "");

	return wait ? "wait " + wait[1].replace("us", "µs") : "";
}

/* A row in words, for those who do not see it. */
function spoken(it) {
	const r = data.rungs[it.first], c = data.connections[r.c], n = it.items ? it.items.length : 1;

	if (it.kind === "quiet" || it.kind === "cycles")
		return inside(it) + ", folded";
	return [r.no ? "packet " + r.no : "", r.fate === "missing" ? "missing" : opcode(r) + (n > 1 ? ", train of " + n : ""),
		r.rel === undefined ? "" : "PSN number " + r.rel, `from ${c.ends[r.from].address} ${qp(c.ends[r.from])}`, r.fate || "",
		r.again ? "sent again" : "", r.dup ? "duplicate" : "", asks(r), r.say || ""].filter(Boolean).join(", ");
}
