/* SPDX-License-Identifier: MIT */
/* ui.js - the page: what is shown, zoom, the packet under the pointer, the map at the edge. */
"use strict";

const $ = (id) => document.getElementById(id);
const root = document.documentElement, stage = $("stage"), list = $("rows"), svg = $("ladder");
let laid = null, pinned = -1;

function make(parent, name, cls, text) {
	const e = document.createElement(name);

	if (cls)
		e.className = cls;
	if (text !== undefined)
		e.textContent = text;
	if (parent)
		parent.appendChild(e);
	return e;
}

/* ---- the heads of the columns ---- */

function heads() {
	const cols = columns(), h = $("heads"), whole = Number(svg.getAttribute("width")), wide = narrow ? 124 : 168;
	const top = el(null, "svg", { class: "pic", width: whole, height: 64, role: "presentation" });

	h.textContent = "";
	h.style.width = whole + "px";
	h.appendChild(top);
	cols.forEach((col, i) => {
		if (!col)
			return;
		const c = data.connections[i];

		[col.left, col.right].forEach((rail, k) => {
			const x = Math.max(wide / 2 + 2, Math.min(rail, col.x + COLUMN - wide / 2 - 2)), box = el(top, "g", {});
			const name = c.ends[k].address, short = narrow && name.length > 22 ? name.slice(0, 10) + "…" + name.slice(-10) : name;

			if (short !== name)
				el(box, "title", {}, name);
			el(box, "rect", { class: "box", x: x - wide / 2, y: 8, width: wide, height: 42, rx: 9 });
			el(box, "text", { class: "who", x, y: 26 }, short);
			el(box, "text", { class: "qp", x, y: 42 }, qp(c.ends[k]));
		});
		el(top, "text", { class: "svc", x: (col.left + col.right) / 2, y: 33 }, c.service);
	});
}

/* ---- numbers, filters ---- */

function facts() {
	const sum = { packets: 0, again: 0, gone: 0, naks: 0, dup: 0, wasted: 0 };

	data.connections.forEach((c, i) => {
		if (!view.shown[i])
			return;
		sum.packets += c.packets;
		sum.again += c.again;
		sum.gone += c.lost + c.missing;
		sum.naks += c.naks + c.rnr_naks;
		sum.dup += c.duplicates;
		sum.wasted += c.discarded;
	});
	const f = $("facts");

	f.textContent = "";
	[["packets", sum.packets, ""], [data.drops ? "lost or not captured" : "lost", sum.gone, "bad"], ["sent again", sum.again, "warn"], ["NAKs", sum.naks, "bad"],
	 ["discarded", sum.wasted, ""], ["duplicates", sum.dup, ""]].forEach(([name, n, cls]) => {
		if (!n && name !== "packets")
			return;
		const e = make(f, "span", "fact " + cls);

		make(e, "b", "", String(n));
		e.append(" " + name);
	});
	make(f, "span", "fact", duration(data.span));
	if (data.left_out || data.drops)
		make(f, "span", "fact bad", (data.left_out ? data.left_out + " left out " : "") + (data.drops ? data.drops + " not captured" : ""));
}

function picks() {
	const p = $("picks");

	p.textContent = "";
	if (data.connections.length < 2)
		return;
	const all = make(p, "button", "", "all"), none = make(p, "button", "", "none");

	all.onclick = () => { view.shown.fill(true); picks(); render(); };
	none.onclick = () => { view.shown.fill(false); view.shown[0] = true; picks(); render(); };
	data.connections.forEach((c, i) => {
		const e = make(p, "label", "pick" + (view.shown[i] ? "" : " off")), box = make(e, "input");
		const bad = c.lost + c.missing + c.again + c.naks + c.rnr_naks;

		box.type = "checkbox";
		box.checked = view.shown[i];
		box.dataset.conn = i;
		box.onchange = () => {
			view.shown[i] = box.checked;
			e.classList.toggle("off", !box.checked);
			render();
		};
		e.append(`${c.service} ${c.ends[0].qpn ? hex(c.ends[0].qpn) : "?"} ⇄ ${c.ends[1].qpn ? hex(c.ends[1].qpn) : "?"} · ${c.packets}`);
		if (bad)
			make(e, "span", "bad", "● " + bad);
	});
}

/* ---- the panel ---- */

function rowOf(list, name, value) {
	make(list, "dt", "", name);
	make(list, "dd", "", value);
}

function describe(i) {
	const p = $("panel"), r = data.rungs[i], c = data.connections[r.c];
	const h = make(null, "h2", r.kind, opcode(r));

	p.textContent = "";
	p.append(h);
	make(h, "small", "", r.no ? "packet " + r.no : r.n > 1 ? r.n + " packets" : "");
	if (r.comment)
		make(p, "p", "says", r.comment);
	if (r.note)
		make(p, "p", "note", r.note[0].toUpperCase() + r.note.slice(1).replace(/ us\b/g, " µs") + ".");
	const list = make(p, "dl");

	rowOf(list, "time", clock(r.t));
	if (r.at)
		rowOf(list, "arrived", "after " + duration(r.at));
	rowOf(list, "from", c.ends[r.from].address + ", " + qp(c.ends[r.from]));
	rowOf(list, "to", c.ends[1 - r.from].address + ", " + qp(c.ends[1 - r.from]));
	rowOf(list, "PSN", r.psn + " = " + hex(r.psn) + (r.rel !== undefined ? ", number " + r.rel : ""));
	if (r.len)
		rowOf(list, "payload", r.len + " B");
	for (const [k, v] of r.detail || [])
		rowOf(list, k, v);
	if (r.fate)
		rowOf(list, "fate", r.fate);
}

function swatches(p, title, list, swatch) {
	make(p, "h3", "", title);
	for (const [k, t] of list) {
		const e = make(p, "div", "key " + (swatch === "rail" ? "" : k));

		make(e, "span", swatch === "rail" ? "swatch rail " + k : "swatch");
		e.append(t);
	}
}

function legend(p) {
	swatches(p, "Packets", [["send", "SEND"], ["write", "RDMA WRITE"], ["read", "RDMA READ, responses"], ["atomic", "atomics"], ["ack", "ACK"],
		["nak", "NAK: lost, or refused"], ["rnr", "RNR NAK: not ready"], ["cm", "connection manager"], ["ud", "datagrams"]]);
	swatches(p, "States of a queue pair", [["INIT", "INIT"], ["RTR", "RTR: may receive"], ["RTS", "RTS: may send"], ["ERR", "ERR"]], "rail");
	if (!narrow)
		return;
	make(p, "h3", "", "Marks");
	make(p, "div", "key", Object.entries(marks).filter(([k]) => k !== "nothing new").map(([k, v]) => v + " " + k).join(" · "));
}

/* The panel while no packet is looked at. */
function help() {
	const p = $("panel");

	p.textContent = "";
	make(p, "p", "hint", "Point at a packet, or go to it by the arrow keys: its headers, and what it means. A click keeps it. " +
	     "Numbers are PSNs, counted from the first of their direction.");
	legend(p);
	make(p, "h3", "", "Keys");
	for (const [k, t] of [["↓ ↑", "next packet, the one before"], ["→ ←", "likewise, of the same connection"], ["Enter", "unfold, fold there"],
		["n", "next trouble"], ["p", "the one before"], ["f", "fold, unfold"], ["t", "true to time"], ["+", "larger"], ["−", "smaller"],
		["d", "dark, light"]]) {
		const e = make(p, "div", "key");

		make(e, "kbd", "", k);
		e.append(t);
	}
}

/* ---- one packet and its kin ---- */

function kin(i) {
	const r = data.rungs[i], last = r.rel + (r.n || 1) - 1;

	for (const g of svg.querySelectorAll(".kin"))
		g.classList.remove("kin");
	if (r.rel === undefined)
		return;
	for (const g of svg.querySelectorAll(".rung[data-i]")) {
		const o = data.rungs[g.dataset.i];

		if (o.c === r.c && o.rel !== undefined && o.rel >= r.rel && o.rel <= last && (o.from === r.from) === (!o.answer === !r.answer))
			g.classList.add("kin");
	}
}

function pin(i) {
	for (const g of svg.querySelectorAll(".pinned"))
		g.classList.remove("pinned");
	for (const g of svg.querySelectorAll("[aria-selected]"))
		g.removeAttribute("aria-selected");
	pinned = i;
	list.removeAttribute("aria-activedescendant");
	if (i < 0) {
		help();
		return;
	}
	const g = $("row" + i);

	if (g) {
		g.classList.add("pinned");
		g.setAttribute("aria-selected", "true");
		list.setAttribute("aria-activedescendant", g.id);
	}
	describe(i);
	kin(i);
}

function over(e) {
	const g = e.target.closest && e.target.closest(".rung[data-i]");

	if (pinned >= 0)
		return;
	if (g) {
		describe(Number(g.dataset.i));
		kin(Number(g.dataset.i));
	}
}

function click(e) {
	const close = e.target.closest("[data-close]"), open = e.target.closest("[data-open]"), g = e.target.closest(".rung[data-i]");

	if (close) {
		view.open.delete(close.dataset.close);
		keep(render);
	} else if (open) {
		view.open.add(open.dataset.open);
		keep(render);
	} else {
		pin(g && Number(g.dataset.i) !== pinned ? Number(g.dataset.i) : -1);
	}
}

/* ---- from row to row ---- */

function show(it) {
	pin(it.first);
	if (it.y < stage.scrollTop || it.y + 2 * ROW > stage.scrollTop + stage.clientHeight - 64)
		stage.scrollTop = it.y - stage.clientHeight / 2;
}

function step(by, same) {
	const here = laid.list.findIndex((it) => it.first <= pinned && pinned <= it.last);
	let k = here < 0 ? (by > 0 ? 0 : laid.list.length - 1) : here + by;

	while (same && here >= 0 && laid.list[k] && data.rungs[laid.list[k].first].c !== data.rungs[pinned].c)
		k += by;
	if (laid.list[k])
		show(laid.list[k]);
}

/* Unfolds the row, or folds again what begins with it. */
function unfold() {
	const it = laid.list.find((k) => k.first === pinned);

	if (!it || (it.kind === "rung" && !it.closes))
		return;
	if (it.kind === "rung")
		view.open.delete(it.closes[it.closes.length - 1]);
	else
		view.open.add(it.key);
	keep(render);
}

/* Troubles one after the other. */
function trouble(step) {
	const bad = laid.list.filter((it) => {
		const r = data.rungs[it.first];

		return it.kind !== "quiet" && (r.fate || r.again || r.kind === "nak" || r.kind === "rnr" || r.say);
	});
	const at = bad.findIndex((it) => it.first === pinned), here = stage.scrollTop;
	let k = at + step;

	if (!bad.length)
		return;
	if (at < 0)
		k = step > 0 ? Math.max(0, bad.findIndex((it) => it.y > here)) : bad.length - 1;
	const it = bad[(k + bad.length) % bad.length];

	pin(it.first);
	stage.scrollTop = it.y - stage.clientHeight / 2;
}

/* ---- the map ---- */

function map() {
	const box = $("map"), cv = box.querySelector("canvas"), h = box.clientHeight, s = getComputedStyle(root);
	const k = window.devicePixelRatio || 1, g = cv.getContext("2d"), color = (n) => s.getPropertyValue("--" + n).trim();

	cv.width = 44 * k;
	cv.height = Math.max(1, h * k);
	g.scale(k, k);
	for (const pass of [0, 1])
		for (const it of laid.list) {
			const r = data.rungs[it.first], y = it.y / laid.height * h, bad = r.fate === "lost" || r.fate === "missing" || r.kind === "nak" || r.fate === "refused";
			const loud = bad || r.again || r.kind === "rnr";

			if (pass !== (loud ? 1 : 0))
				continue;
			g.globalAlpha = loud ? 1 : 0.5;
			g.fillStyle = color(bad ? "nak" : r.again || r.kind === "rnr" ? "again" : r.kind);
			g.fillRect(loud ? 6 : r.from ? 22 : 10, y, loud ? 32 : 12, loud ? 2 : Math.max(1, Math.min(2, h / laid.list.length - 0.5)));
		}
	lens();
}

function lens() {
	const h = $("map").clientHeight, l = $("lens").style, whole = stage.scrollHeight;

	l.top = stage.scrollTop / whole * h + "px";
	l.height = Math.min(h, stage.clientHeight / whole * h) - 3 + "px";
}

/* ---- drawing anew ---- */

function render() {
	const begin = performance.now();

	fit(stage.clientWidth);
	laid = draw(svg);
	heads();
	facts();
	map();
	for (const [id, on] of [["fold", view.fold], ["scaled", view.scaled]]) {
		$(id).classList.toggle("on", on);
		$(id).setAttribute("aria-pressed", on);
	}
	if (pinned >= 0)
		pin(pinned);
	root.dataset.rows = laid.list.length;
	root.dataset.packets = data.rungs.length;
	root.dataset.ms = Math.round(performance.now() - begin);
}

/* The point in the middle stays there. */
function keep(change) {
	const mid = stage.scrollTop + stage.clientHeight / 2, near = laid.list.reduce((a, it) => Math.abs(it.y - mid) < Math.abs(a.y - mid) ? it : a, laid.list[0]);
	const off = near ? near.y - stage.scrollTop : 0;

	change();
	const now = near && laid.list.find((it) => it.first >= near.first);

	if (now)
		stage.scrollTop = now.y - off;
	lens();
}

function span() {
	const shown = data.rungs.filter((r) => view.shown[r.c]);

	return shown.length ? Math.max(1, shown[shown.length - 1].t - shown[0].t) : 1;
}

function zoom(by) {
	if (view.scaled)
		view.scale *= by;
	else
		view.zoom = Math.min(3, Math.max(0.4, view.zoom * by));
	keep(render);
}

function scaled(on) {
	view.scaled = on;
	view.scale = view.scale || Math.min(20000, Math.max(700, data.rungs.length * 12)) / span();
	keep(render);
}

function dark(on) {
	root.classList.toggle("dark", on);
	if (laid)
		map();
}

/* ---- begin ---- */

function begin() {
	const want = new Map(location.hash.slice(1).split("&").map((w) => w.split("=")));
	const theme = want.get("theme") || root.dataset.theme, wishes = matchMedia("(prefers-color-scheme: dark)");

	$("name").textContent = document.title = data.title;
	dark(theme === "dark" || (theme !== "light" && wishes.matches));
	if (theme !== "dark" && theme !== "light")
		wishes.onchange = () => dark(wishes.matches);
	if (want.has("unfold"))
		view.fold = false;
	if (want.has("qp")) {
		const q = want.get("qp").split(",").map(Number);

		view.shown = data.connections.map((c) => c.ends.some((e) => q.includes(e.qpn)));
	} else if (data.connections.length > 6) {
		view.shown = data.connections.map((c, i) => i < 3);
	}
	picks();
	help();
	render();
	legend($("legend"));
	if (want.has("time"))
		scaled(true);
	if (want.has("pin"))
		pin(data.rungs.findIndex((r) => r.no === Number(want.get("pin"))));
	if (want.has("trouble"))
		trouble(1);
	svg.addEventListener("mouseover", over);
	svg.addEventListener("click", click);
	stage.addEventListener("scroll", lens);
	stage.addEventListener("wheel", (e) => {
		if (!e.ctrlKey)
			return;
		e.preventDefault();
		zoom(e.deltaY < 0 ? 1.15 : 1 / 1.15);
	}, { passive: false });
	window.addEventListener("resize", () => keep(render));
	/* Paper is white. */
	let was = false;
	window.addEventListener("beforeprint", () => { was = root.classList.contains("dark"); dark(false); });
	window.addEventListener("afterprint", () => dark(was));
	$("map").addEventListener("click", (e) => {
		stage.scrollTop = (e.clientY - $("map").getBoundingClientRect().top) / $("map").clientHeight * stage.scrollHeight - stage.clientHeight / 2;
	});
	const acts = {
		next: () => trouble(1), prev: () => trouble(-1), fold: () => { view.fold = !view.fold; view.open.clear(); keep(render); },
		scaled: () => scaled(!view.scaled), larger: () => zoom(1.25), smaller: () => zoom(0.8),
		theme: () => dark(!root.classList.contains("dark")),
	};
	const keys = { n: "next", p: "prev", f: "fold", t: "scaled", "+": "larger", "=": "larger", "-": "smaller", d: "theme" };
	const arrows = { ArrowDown: () => step(1), ArrowUp: () => step(-1), ArrowRight: () => step(1, true), ArrowLeft: () => step(-1, true),
		Home: () => show(laid.list[0]), End: () => show(laid.list[laid.list.length - 1]), Enter: unfold };

	for (const id in acts)
		$(id).onclick = acts[id];
	document.addEventListener("keydown", (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey)
			return;
		if (e.key === "Escape") {
			pin(-1);
		} else if (keys[e.key]) {
			acts[keys[e.key]]();
		} else if (arrows[e.key] && laid.list.length && !e.target.closest?.("button, input")) {
			e.preventDefault();
			arrows[e.key]();
		}
	});
	root.dataset.ready = "1";
}

begin();
