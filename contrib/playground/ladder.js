/* SPDX-License-Identifier: MIT */
/* ladder.js - what has passed and what is under way, as a sequence diagram; the marks are those of ctl/page/picture.css. */
"use strict";

const TOP = 14, ROW = 23, STEP = 14, LINE = 14, SILENCE = 30000, DROP = 26, LINK_NS = 2000;

function duration(ns) {
	const u = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];

	return Number((ns / u[0]).toPrecision(3)) + " " + u[1];
}

function clock(ns) {
	return duration(Math.max(0, ns - BEGIN_NS));
}

/* A note as a few words at the line of its node, and its kind; null: none. */
function noteShort(n, narrow) {
	if (n.kind === "post")
		return [`post ${n.id}: ${tables.wr[n.op].name.replace(/_/g, " ")}${n.op === 5 || n.op === 6 || narrow ? "" : " " + n.len + " B"}`, "plain"];
	if (n.kind === "recv")
		return ["receive " + n.id, "plain"];
	if (n.kind === "cqe")
		return [`${n.status ? "✗" : "✓"} ${n.id} ${n.status ? STATUS[n.status] : n.send ? "sent" : "received"}`, n.status ? "bad" : "good"];
	if (n.kind === "trace" && n.what === "timeout")
		return ["timeout", "warn"];
	if (n.kind === "trace" && n.what === "early")
		return ["early copy", "warn"];
	if (n.kind === "trace" && n.what === "state" && n.to === "ERR")
		return ["to ERR", "bad"];
	return null;
}

/* Times in their order, each with its y. */
function layout(w) {
	const at = new Map(), need = (t, o) => Object.assign(at.get(t) || at.set(t, { out: 0, notes: [] }).get(t), o);
	let y = TOP, before = null, out = -100, notes = 0, low = 0;

	for (const p of w.packets) {
		need(p.sent).out++;
		if (p.state !== "lost")
			need(p.at);
	}
	for (const n of w.notes)
		if (noteShort(n))
			need(n.at).notes.push(n);
	need(w.now);
	const times = [...at.keys()].sort((a, b) => a - b);

	for (const t of times) {
		const o = at.get(t);

		o.gap = before !== null && t - before > SILENCE ? t - before : 0;
		y = Math.max(y + (before === null ? 0 : STEP), notes);
		if (o.gap)
			y = Math.max(y, low) + 40;
		if (o.out) {
			y = Math.max(y, out + ROW);
			out = y + (o.out - 1) * ROW;
			low = out + DROP;
		}
		o.y = y;
		o.used = [0, 0, 0];
		for (const n of o.notes)
			o.used[n.node]++;
		notes = o.notes.length ? y + Math.max(...o.used) * LINE : 0;
		before = t;
	}
	const now = at.get(w.now);

	return { at, times, height: Math.max(y, notes, low) + 40, now: now.y + Math.max(8, (Math.max(...now.used) - 1) * LINE + 12) };
}

/* The diagram is as wide as its place, within reason, so that letters keep their size. */
function widthOf(w) {
	return Math.max(w.nodes.length === 3 ? 680 : 440, Math.min(1000, document.getElementById("stage").clientWidth));
}

function leftOf(w) {
	return widthOf(w) < 700 ? 124 : 160;
}

function xOf(w, node) {
	return leftOf(w) + node * (widthOf(w) - 2 * leftOf(w)) / (w.nodes.length - 1);
}

function rails(svg, w, l) {
	const end = l.now;

	w.nodes.forEach((n, i) => {
		const x = xOf(w, i);
		const qps = w.pairs.flatMap((p) => p.qp).filter((q) => q && q.node === i);

		el(svg, "path", { class: "life", d: `M${x} 0V${l.height}` });
		qps.forEach((q, k) => {
			const xq = x - 4 + (k - (qps.length - 1) / 2) * 10, steps = w.notes.filter((m) => m.kind === "trace" && m.what === "state" && m.qpn === q.qpn);

			steps.forEach((s, j) => {
				const y = l.at.get(s.at) ? l.at.get(s.at).y : TOP, to = j + 1 < steps.length && l.at.get(steps[j + 1].at) ? l.at.get(steps[j + 1].at).y : end;

				if (to > y)
					el(el(svg, "rect", { class: "rail " + s.to, x: xq, y: y - 4, width: 8, height: to - y + 4, rx: 3 }), "title", {},
					   `QP 0x${q.qpn.toString(16)}: ${s.to}`);
			});
		});
	});
}

function arrowHead(g, x, y, dir, angle) {
	el(g, "path", { class: "head", d: "M0 0L-9 -4L-9 4Z", transform: `translate(${x} ${y}) rotate(${dir > 0 ? angle : 180 - angle})` });
}

/* Beside what was sent with it and arrived. */
function lostY(l, p, y0) {
	const due = p.sent + LINK_NS, i = l.times.findIndex((x) => x >= due);

	if (i < 1 || l.times[i] >= due + LINK_NS)
		return y0 + DROP / 0.6;
	const [t0, t1] = [l.times[i - 1], l.times[i]], [ya, yb] = [l.at.get(t0).y, l.at.get(t1).y];

	return Math.min(y0 + 110, Math.max(y0 + 10, ya + (yb - ya) * (due - t0) / (t1 - t0)));
}

/* Its end, a head or a cross, is returned: nothing may hide it. */
function packet(svg, w, l, p, slot, chosen) {
	const dir = p.to > p.from ? 1 : -1, a = xOf(w, p.from) + dir * 8, b = xOf(w, p.to) - dir * 8, y0 = l.at.get(p.sent).y + slot * ROW;
	const part = p.state === "lost" ? 0.6 : 1;
	const y1 = p.state === "lost" ? lostY(l, p, y0) : Math.max(y0 + 10, l.at.get(p.at).y), x1 = a + (b - a) * part, ye = y0 + (y1 - y0) * part;
	const angle = Math.atan2(y1 - y0, Math.abs(b - a)) * 180 / Math.PI, sized = p.len && p.css !== "cm" && Math.abs(b - a) > 300;
	const letters = packetName(p).length * 7.4 + String(p.psn).length * 7 + (sized ? 48 : 0) + (p.iter > 1 || p.made ? 40 : 0);
	const mid = Math.min(0.56, Math.max(0.3, (letters / 2 + 10) / Math.abs(b - a)));
	const xm = a + (b - a) * mid, ym = y0 + (y1 - y0) * mid;
	const odd = /out of sequence|dropped|refused/.test(p.said) && p.state === "arrived", dup = /^duplicate/m.test(p.said);
	const g = el(svg, "g", { class: ["rung", p.css, p.state, odd ? "discarded" : "", dup ? "dup" : "", p.op && p.op.role === 3 ? "answer" : "", p.i === chosen ? "pinned" : ""].join(" "),
		"data-i": p.i, role: "option", id: "pkt-" + p.i, "aria-selected": p.i === chosen,
		"aria-label": `packet ${p.i}: ${packetWords(p)}, ${p.state === "flying" ? "under way" : p.state}` });

	el(g, "path", { class: "touch", d: `M${a} ${y0}L${b} ${y1}` });
	el(g, "path", { class: "wire", d: `M${a} ${y0}L${x1} ${ye}` });
	el(g, "circle", { class: "tail", cx: a, cy: y0, r: 2.4 });
	const end = el(null, "g", { class: "end " + g.getAttribute("class"), "aria-hidden": "true" });

	if (p.state === "lost")
		el(end, "path", { class: "cross", d: `M${x1 - 5} ${ye - 5}l10 10m0 -10l-10 10` });
	else
		arrowHead(end, b, y1, dir, angle);
	const t = el(g, "text", { class: "label", x: xm, y: ym - 4.5, transform: `rotate(${dir * angle} ${xm} ${ym})` });

	el(t, "tspan", { class: "what" }, packetName(p));
	el(t, "tspan", { class: "num", dx: 6 }, p.psn);
	if (sized)
		el(t, "tspan", { class: "size", dx: 6 }, p.len + " B");
	if (p.bad)
		el(t, "tspan", { class: "size", dx: 6 }, "damaged");
	if (p.made && p.op)
		el(t, "tspan", { class: "size", dx: 6 }, "copy");
	if (p.iter > 1 && p.op && p.op.role !== 4)
		el(t, "tspan", { class: "again-mark", dx: 6 }, "again");
	return end;
}

function notes(svg, w, l) {
	for (const t of l.times) {
		const o = l.at.get(t), k = [0, 0, 0];

		for (const n of o.notes) {
			const [text, css] = noteShort(n, leftOf(w) < 130), side = n.node === 0 ? -1 : 1, x = xOf(w, n.node) + side * 14;

			el(svg, "text", { class: "note " + css, x, y: o.y + 4 + LINE * k[n.node]++, "text-anchor": side < 0 ? "end" : "start" }, text);
		}
	}
}

/* The whole diagram; chosen: a packet, or -1. */
function drawLadder(svg, w, chosen) {
	const l = layout(w), width = widthOf(w), taken = new Map(), ends = [];

	svg.textContent = "";
	svg.setAttribute("viewBox", `0 0 ${width} ${l.height}`);
	svg.style.maxWidth = width + "px";
	if (!w.pairs.length)
		return;
	rails(svg, w, l);
	for (const t of l.times) {
		const o = l.at.get(t);

		if (o.gap)
			el(svg, "text", { class: "gap", x: width / 2, y: o.y - 17 }, duration(o.gap) + " later");
	}
	const y = l.now;

	el(svg, "path", { class: "now", d: `M8 ${y}H${width - 8}` });
	el(svg, "text", { class: "now-text", x: 10, y: y + 13 }, "now, " + clock(w.now));
	for (const p of w.packets) {
		const slot = taken.get(p.sent) || 0;

		taken.set(p.sent, slot + 1);
		ends.push(packet(svg, w, l, p, slot, chosen));
	}
	notes(svg, w, l);
	svg.append(...ends);
}

/* The heads above the lines. */
function drawHeads(svg, w) {
	const width = widthOf(w);

	svg.textContent = "";
	svg.setAttribute("viewBox", `0 0 ${width} 50`);
	svg.style.maxWidth = width + "px";
	w.nodes.forEach((n, i) => {
		const x = xOf(w, i);

		el(svg, "rect", { class: "box", x: x - 84, y: 4, width: 168, height: 42, rx: 9 });
		el(svg, "text", { class: "who", x, y: 22 }, NODE[i]);
		el(svg, "text", { class: "qp", x, y: 38 }, "10.0.0." + (i + 1));
	});
}
