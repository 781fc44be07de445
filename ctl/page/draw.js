/* SPDX-License-Identifier: MIT */
/* draw.js - rows as SVG. */
"use strict";

const bothEnds = data.rungs.some((r) => r.at);

/* The columns of the connections that are shown. */
function columns() {
	let x = LEFT;

	return data.connections.map((c, i) => {
		if (!view.shown[i])
			return null;
		const col = { x, left: x + RAIL, right: x + COLUMN - RAIL };

		x += COLUMN;
		return col;
	});
}

/* ---- one packet ---- */

function arrow(g, x, y, dir, angle) {
	el(g, "path", { class: "head", d: "M0 0L-9 -4L-9 4Z", transform: `translate(${x} ${y}) rotate(${dir > 0 ? angle : 180 - angle})` });
}

function cross(g, x, y) {
	el(g, "path", { class: "cross", d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` });
}

function chip(g, x, y, side, text, kind) {
	const w = text.length * 5.9 + (narrow ? 8 : 12), at = side > 0 ? x + 12 : x - 12 - w;

	el(g, "rect", { class: "chip " + kind, x: at, y: y - 7.5, width: w, height: 15, rx: 7.5 });
	el(g, "text", { class: "chip-text " + kind, x: at + w / 2, y: y + 3.7 }, text);
}

function label(g, r, x, y, angle) {
	const t = el(g, "text", { class: "label", x, y: y - 4.5, transform: `rotate(${angle} ${x} ${y})` });
	const last = r.rel + (r.n || 1) - 1;

	el(t, "tspan", { class: "what" }, r.fate === "missing" ? "missing" : opcode(r));
	if (r.rel !== undefined)
		el(t, "tspan", { class: "num", dx: 6 }, last > r.rel ? r.rel + "–" + last : r.rel);
	if (r.len && r.kind !== "cm" && !narrow)
		el(t, "tspan", { class: "size", dx: 6 }, size(r.len));
	if (asks(r))
		el(t, "tspan", { class: "size", dx: 6 }, asks(r));
	const SAYS = narrow ? 30 : 38;

	if (r.say && !view.scaled)
		el(g, "text", { class: "label says", x, y: y + 10.5, transform: `rotate(${angle} ${x} ${y})` },
		   r.say.length > SAYS ? r.say.slice(0, SAYS - 1) + "…" : r.say);
}

function letters(r) {
	const says = Math.min(38, (r.say || "").length) * 0.76;	/* a smaller line of its own */

	return Math.max(says, opcode(r).length + (r.rel === undefined ? 0 : 4) + (r.len ? 6 : 0));
}

function chips(g, r, x0, y0, x1, y1, dir) {
	if (r.again)
		chip(g, x0, y0, -dir, mark("again") + (r.again > 1 ? (narrow ? "" : " ×") + r.again : ""), "warn");
	if (r.fate === "discarded")
		chip(g, x1, y1, dir, mark("discarded"), "plain");
	else if (r.fate === "refused")
		chip(g, x1, y1, dir, mark("refused"), "bad");
	else if (r.dup && r.fate !== "lost")
		chip(g, x1, y1, dir, mark(r.kind === "ack" ? "nothing new" : "duplicate"), "plain");
}

function rung(g, it, col, points, quietly) {
	const r = data.rungs[it.first], dir = r.from ? -1 : 1;
	const a = r.from ? col.right : col.left, b = r.from ? col.left : col.right;
	const x0 = a + dir * 5, x1 = b - dir * 5, y0 = it.y;
	const slope = view.scaled ? Math.min(SLOPE, 6) : Math.min(SLOPE, ROW * view.zoom * 0.45);
	const y1 = r.at ? Math.max(y0 + slope, y_at(points, r.t + r.at)) : y0 + slope;
	const part = r.fate === "lost" ? 0.72 : r.fate === "missing" ? 0.5 : 1;
	const xe = x0 + (x1 - x0) * part, ye = y0 + (y1 - y0) * part;
	const angle = Math.atan2(y1 - y0, Math.abs(x1 - x0)) * 180 / Math.PI;

	g.setAttribute("class", ["rung", r.kind, r.fate || "", r.dup ? "dup" : "", r.again ? "again" : "", r.answer ? "answer" : ""].join(" ").trim());
	g.dataset.i = it.first;
	el(g, "path", { class: "touch", d: `M${x0} ${y0}L${x1} ${y1}` });
	el(g, "path", { class: "wire", d: `M${x0} ${y0}L${xe} ${ye}` });
	el(g, "circle", { class: "tail", cx: x0, cy: y0, r: 2.4 });
	if (part < 1)
		cross(g, xe, ye);
	else
		arrow(g, xe, ye, dir, angle);
	if (quietly)
		return;
	if (r.fate === "unanswered")
		el(g, "text", { class: "mark", x: x1 - dir * 18, y: y1 - 7, "text-anchor": "middle" }, "?");
	/* Captured at both ends they cross: what they are stands near where they begin, beside the head of what ends there. */
	const mid = Math.max(bothEnds ? 0.24 : part / 2, Math.min(0.6, (18 + letters(r) * 2.9) / Math.abs(x1 - x0)));

	label(g, r, x0 + (x1 - x0) * mid, y0 + (y1 - y0) * mid, dir * angle);
	chips(g, r, x0, y0, x1, y1, dir);
}

/* ---- groups ---- */

function train(g, it, col, quietly) {
	const r = data.rungs[it.first], e = data.rungs[it.last], dir = r.from ? -1 : 1;
	const x0 = (r.from ? col.right : col.left) + dir * 5, x1 = (r.from ? col.left : col.right) - dir * 5;
	const n = it.items.length, lines = Math.min(n, Math.floor(it.h / 3));
	let bytes = 0;

	for (const k of it.items)
		bytes += data.rungs[k.first].len || 0;
	g.setAttribute("class", ["fold rung train-of", r.kind, r.fate || "", r.dup ? "dup" : "", r.answer ? "answer" : ""].join(" "));
	g.dataset.i = it.first;
	el(g, "path", { class: "train", d: `M${x0} ${it.y}L${x1} ${it.y + SLOPE}L${x1} ${it.y + it.h + SLOPE}L${x0} ${it.y + it.h}Z` });
	for (let k = 0; k <= lines; k++) {
		const y = it.y + it.h * k / Math.max(1, lines), edge = k === 0 || k === lines;

		el(g, "path", { class: edge ? "wire" : "hatch", d: `M${x0} ${y}L${x1} ${y + SLOPE}` });
		if (edge)
			arrow(g, x1, y + SLOPE, dir, Math.atan2(SLOPE, Math.abs(x1 - x0)) * 180 / Math.PI);
	}
	if (quietly)
		return;
	const xm = (x0 + x1) / 2, ym = it.y + (it.h + SLOPE) / 2;
	const t = el(g, "text", { class: "label", x: xm, y: ym + 4, transform: `rotate(${dir * 1.7} ${xm} ${ym})` });

	el(t, "tspan", { class: "what" }, opcode(r).replace(/ (FIRST|MIDDLE|LAST|ONLY)\b/, "") + " ×" + n);
	el(t, "tspan", { class: "num", dx: 6 }, r.rel + "–" + e.rel);
	if (bytes)
		el(t, "tspan", { class: "size", dx: 6 }, size(bytes));
	el(t, "tspan", { class: "size", dx: 6 }, "⊕");
	chips(g, r, x0, it.y + it.h / 2, x1, ym + SLOPE / 2, dir);
}

/* The text of a quiet stretch, or of cycles of RNR NAK. */
function inside(it) {
	const rungs = it.items.flatMap((k) => k.items || [k]).map((k) => data.rungs[k.first]);
	const span = duration(data.rungs[it.last].t - data.rungs[it.first].t);

	if (it.kind === "cycles")
		return `resend and RNR NAK ×${rungs.filter((r) => r.kind === "rnr").length} · ${span}`;
	return `${rungs.length} packets, nothing remarkable · ${span}`;
}

function folded(g, it, shown) {
	const x = shown[0].x + 8, w = shown[shown.length - 1].x + COLUMN - 8 - x;

	g.setAttribute("class", "fold quiet-group");
	g.dataset.i = it.first;
	el(g, "rect", { class: "quiet", x, y: it.y, width: w, height: it.h, rx: 8 });
	el(g, "text", { class: "quiet-text", x: x + w / 2, y: it.y + it.h / 2 + 4 }, inside(it) + "  ⊕");
}

/* ---- rails, bands ---- */

function segments(c, side) {
	return c.states.filter((s) => s[0] === side).sort((a, b) => a[2] - b[2]);
}

/* Rails last as long as their connection. */
function rail(svg, x, side, c, points, all) {
	const list = segments(c, side), outside = side ? 1 : -1;
	const begin = Math.max(0, y_at(points, c.begin) - TOP), height = Math.min(all, y_at(points, c.end) + ROW + 12);
	const bar = (y, y2, state, why) => {
		if (y2 <= y)
			return;
		const e = el(svg, "rect", { class: "rail " + state, x: x - 4, y, width: 8, height: y2 - y, rx: 3 });

		el(e, "title", {}, why);
	};
	const first = list.length ? Math.max(begin, y_at(points, list[0][2]) - 4) : height;

	let named = -100;

	bar(begin, list.length ? first : height, list.length ? "rest" : "RTS rest", list.length ? "before: not known" :
	    "its state is not known: it sends and receives");
	list.forEach((s, i) => {
		const y = Math.max(begin, y_at(points, s[2]) - 4), y2 = i + 1 < list.length ? y_at(points, list[i + 1][2]) - 4 : height;

		if (i + 1 < list.length && list[i + 1][2] === s[2])
			return;
		bar(y, y2, s[1], s[1] + ": " + s[3]);
		if (y - named > 12) {
			named = y;
			el(svg, "text", { class: "state", x: x + outside * 10, y: y + 9, "text-anchor": side ? "start" : "end" }, s[1]);
		}
	});
}

function rails(svg, cols, points, height) {
	cols.forEach((col, i) => {
		if (!col)
			return;
		rail(svg, col.left, 0, data.connections[i], points, height);
		rail(svg, col.right, 1, data.connections[i], points, height);
	});
}

function gap(svg, it, all) {
	const y = it.y - GAP / 2 - 9, t = data.rungs[it.first].t;
	const cols = all.map((col, i) => t > data.connections[i].begin && t <= data.connections[i].end ? col : null);

	for (const col of cols)
		if (col)
			for (const x of [col.left, col.right])
				el(svg, "path", { class: "break", d: `M${x} ${y - 7}v16` });
	for (const col of cols)
		if (col)
			el(svg, "text", { class: "gap", x: (col.left + col.right) / 2, y: y + 4 }, duration(it.gap) + " of silence");
}

/* ---- all ---- */

function drawRow(svg, it, cols, points, state) {
	const r = data.rungs[it.first], g = el(svg, "g", {}), col = cols[r.c];
	const crowded = view.scaled && it.y - state.y < 13;

	if (it.gap)
		gap(svg, it, cols);
	if (it.kind === "quiet")
		folded(g, it, cols.filter(Boolean));
	else if (it.kind === "cycles")
		folded(g, it, [col]);
	else if (it.kind === "train")
		train(g, it, col, crowded);
	else
		rung(g, it, col, points, crowded);
	if (it.kind !== "rung")
		g.dataset.open = it.key;
	g.id = "row" + it.first;
	g.setAttribute("role", "option");
	g.setAttribute("aria-label", spoken(it));
	if (!crowded) {
		el(svg, "text", { class: "time", x: LEFT - 14, y: it.y + 4 }, clock(r.t));
		state.y = it.y;
	}
	(it.closes || []).forEach((key, n) => {
		const h = el(svg, "g", { class: "close", "aria-hidden": "true" });

		h.dataset.close = key;
		el(h, "circle", { cx: 10 + 16 * n, cy: it.y, r: 7 });
		el(h, "path", { d: `M${6.5 + 16 * n} ${it.y}h7` });
	});
}

function draw(svg) {
	const cols = columns(), l = layout(), state = { y: -100 };
	const width = LEFT + COLUMN * Math.max(1, cols.filter(Boolean).length);
	const rest = document.createDocumentFragment();

	svg.textContent = "";
	svg.setAttribute("width", width);
	svg.setAttribute("height", l.height);
	svg.setAttribute("viewBox", `0 0 ${width} ${l.height}`);
	rails(svg, cols, l.points, l.height);
	for (const it of l.list)
		drawRow(rest, it, cols, l.points, state);
	svg.appendChild(rest);
	return l;
}
