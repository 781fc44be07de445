/* SPDX-License-Identifier: MIT */
/* ui.js - the page as a whole: tabs, keys, links, light and dark. */
"use strict";

const $ = (id) => document.getElementById(id);
const TABS = ["lesson", "work", "packet", "state", "log", "help"];
const SHOW = { lesson: showLesson, work: showWork, packet: showPacket, state: showState, log: showLog, help: () => {} };
const RUN_STEPS = 200;

const game = {
	chosen: -1, tab: "lesson", tour: null,

	/* Everything is drawn anew; it is little. say: what happened, for the line below the title. */
	refresh(tab, say) {
		this.w = this.s.core.world();
		if (this.chosen >= this.w.packets.length)
			this.chosen = -1;
		if (tab)
			this.tab = tab;
		this.draw();
		$("empty").hidden = this.w.pairs.length > 0;
		$("back").disabled = !this.s.log.length;
		for (const t of TABS) {
			$(t).hidden = t !== this.tab;
			if (t !== "help")
				$(t).textContent = "";
			$("tab-" + t).setAttribute("aria-selected", t === this.tab);
			$("tab-" + t).tabIndex = t === this.tab ? 0 : -1;
		}
		SHOW[this.tab]();
		$("ladder").setAttribute("aria-activedescendant", this.chosen >= 0 ? "pkt-" + this.chosen : "");
		if (say !== undefined)
			$("said").textContent = say;
		document.documentElement.dataset.packets = this.w.packets.length;
		this.address();
	},

	draw() {
		drawHeads($("heads"), this.w);
		drawLadder($("ladder"), this.w, this.chosen);
	},

	fragment() {
		const list = this.s.list(), t = this.tour;

		if (t && !t.off)
			return `lesson=${t.name}&stop=${t.stop + 1}`;
		return list.length ? "do=" + list.join(";") : "";
	},

	/* The address of the page is that of this moment. */
	address() {
		const f = this.fragment();

		this.own = f;
		try {
			history.replaceState(null, "", "#" + f);
		} catch (e) {
			location.hash = f;
		}
	},

	load(list, say) {
		closeAsk();
		this.s.load(list);
		this.chosen = -1;
		this.tour = null;
		this.refresh(undefined, this.s.bad.length ? "Left out: " + this.s.bad.join("; ") : say || "");
	},

	/* One thing is done: by a button, a key, a form. */
	act(token) {
		closeAsk();
		const had = this.w.packets.length, e = this.s.act(token), f = document.activeElement && document.activeElement.closest("[data-hand],[data-field]");

		if (e) {
			if (e === FULL)
				this.refresh();
			$("said").textContent = e[0].toUpperCase() + e.slice(1) + ".";
			return false;
		}
		if (this.tour)
			this.tour.off = true;
		const w = this.s.core.world();

		if (token === "s" && this.s.what >> 16 === 1)
			this.chosen = this.s.what & 0xffff;
		this.refresh(token[0] === "q" && this.tab !== "work" ? "work" : undefined, this.words(token, w, had));
		if (f && f.dataset.hand && !document.querySelector(`[data-hand="${f.dataset.hand}"]`))
			$("step").focus();
		this.follow();
		return true;
	},

	words(token, w, had) {
		const out = w.packets.slice(had), p = w.packets[this.s.what & 0xffff], left = out.length ? ` Sent: ${out.slice(0, 3).map(packetName).join(", ")}${out.length > 3 ? " …" : ""}.` : "";

		if (/^s\d*$/.test(token))
			return this.s.what >> 16 === 1 ? `${packetWords(p)}: ${p.state === "lost" ? "lost" : "arrives"}${p.said ? " - " + p.said.split("\n").pop().replace(/ us\b/, " µs") : ""}.${left}` :
				`A timer of the ${NODE[this.s.what & 0xffff]} runs out, at ${clock(w.now)}.${left}`;
		return { x: "Dropped.", d: "Delayed.", t: "Now there are two.", c: w.packets[Number(token.split(":")[1])]?.bad ? "Damaged: the ICRC will tell." : "Flipped, but the ICRC is right: it does not cover this bit, or all is as it was.", n: "It overtakes the others.", v: "Posted.", r: "These rules hold from now on." }[token[0]] || (token[0] === "p" ? "Posted." + left : left.trim());
	},

	choose(i, tab) {
		this.chosen = i;
		this.refresh(tab || "packet");
		this.follow();
	},

	/* Step, after a question if questions are asked. */
	step() {
		if (predict.on && !predict.open && ask())
			return;
		if (predict.open)
			return;
		this.act("s");
	},

	run() {
		closeAsk();
		let n = 0, e = "";

		do
			n++;
		while (!(e = this.s.act("s")) && n < RUN_STEPS && this.busy());
		if (this.tour)
			this.tour.off = true;
		this.refresh(undefined, "Run: " + (e === FULL ? e : this.busy() ? "more would happen" : "nothing is under way any more") + ".");
		this.follow();
	},

	busy() {
		const w = this.s.core.world();

		return w.packets.some((p) => p.state === "flying") || w.pairs.some((p) => p.qp.some((q) => q && q.sends));
	},

	begin(name, stop) {
		const here = TOURS[name][stop];

		closeAsk();
		this.s.load(tourList(name, stop));
		this.tour = { name, stop, off: false };
		this.chosen = here.see;
		this.refresh("lesson", `Lesson ${name}, stop ${stop + 1}.`);
		this.follow();
	},

	/* The chosen packet is brought into sight. */
	follow() {
		const g = this.chosen >= 0 && document.querySelector(`#ladder [data-i="${this.chosen}"]`), box = $("scroll");

		if (!g)
			return;
		const r = g.getBoundingClientRect(), b = box.getBoundingClientRect();

		if (r.top < b.top + 56 || r.bottom > b.bottom)
			box.scrollTop += (r.top + r.bottom) / 2 - (b.top + b.bottom) / 2;
	},
};

/* ---- links ---- */

function openLink(fragment) {
	const q = Object.fromEntries(fragment.split("&").map((x) => [x.slice(0, x.indexOf("=")), x.slice(x.indexOf("=") + 1)]));

	if (q.lesson && Object.hasOwn(TOURS, q.lesson))
		game.begin(q.lesson, Math.min(TOURS[q.lesson].length, Math.max(1, Number(q.stop) || 1)) - 1);
	else
		game.load(q.do ? q.do.split(";") : [], q.do ? "As the link has it." : "");
	if (q.do)
		game.refresh("packet");
}

function link() {
	const url = location.href, ok = () => { $("said").textContent = "The link to this moment is copied: " + url; };

	if (navigator.clipboard && window.isSecureContext)
		navigator.clipboard.writeText(url).then(ok, ok);
	else
		ok();
}

/* ---- light and dark, and paper is light ---- */

const wants = { dark: matchMedia("(prefers-color-scheme: dark)"), paper: matchMedia("print"), chosen: null };

function theme() {
	document.documentElement.classList.toggle("dark", !wants.paper.matches && (wants.chosen === null ? wants.dark.matches : wants.chosen));
}

/* ---- keys ---- */

const KEYS = [["s", "Step: the next packet arrives, or the next timer runs out", () => game.step()], ["b", "one step back", () => $("back").click()],
	["r", "Run, until nothing is under way", () => game.run()], ["0", "Clear", () => game.load([])], ["p", "Predict: a question before each step", () => $("predict").click()],
	["j", "the next packet in the diagram", () => pick(1)], ["i", "the one before (also arrow keys)", () => pick(-1)],
	["x", "drop the chosen packet", "x"], ["d", "delay it by 10 µs", "d"], ["w", "duplicate it", "w"], ["c", "corrupt it", "c"], ["n", "deliver it at once", "n"],
	["k", "link to this moment", link], ["t", "dark or light", () => $("theme").click()], ["Esc", "close a question", null], ["1 … 6", "the panels: lessons, work, packet, state, log, keys", null]];

function pick(by) {
	const n = game.w.packets.length;

	if (n)
		game.choose(game.chosen < 0 ? (by > 0 ? 0 : n - 1) : Math.min(n - 1, Math.max(0, game.chosen + by)), game.tab === "state" || game.tab === "log" ? game.tab : "packet");
}

function hand(key) {
	const find = () => document.querySelector(`[data-hand="${key}"]`);

	if (!find() && game.chosen >= 0)
		game.refresh("packet");
	if (find())
		find().click();
	else
		$("said").textContent = "Choose a packet that is under way first.";
}

function key(e) {
	const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && !/^(radio|checkbox)$/.test(e.target.type);

	if (e.ctrlKey || e.metaKey || e.altKey || typing)
		return;
	if (e.target.id === "ladder" && ["ArrowDown", "ArrowUp"].includes(e.key)) {
		pick(e.key === "ArrowDown" ? 1 : -1);
		e.preventDefault();
		return;
	}
	if (e.key === "Escape" && predict.open) {
		closeAsk();
		$("step").focus();
	} else if (/^[1-6]$/.test(e.key)) {
		game.refresh(TABS[Number(e.key) - 1]);
		$(game.tab).focus();
	} else if (e.key === "Enter" && e.target === document.body && game.tour && !$("tour-next").disabled) {
		$("tour-next").click();
	} else {
		const k = KEYS.find((x) => x[0] === e.key);

		if (!k || !k[2])
			return;
		if (typeof k[2] === "string")
			hand(k[2]);
		else
			k[2]();
	}
	e.preventDefault();
}

function help() {
	const panel = $("help"), box = (make(panel, "h2", {}, "Keys"), make(panel, "div", { class: "keys" }));

	for (const [k, t] of KEYS) {
		make(box, "kbd", {}, k);
		make(box, "span", {}, t);
	}
	make(panel, "h2", { style: "margin-top:20px" }, "What this is");
	make(panel, "p", {}, "The transport core of rdmad, the same C as in its daemon, compiled to WebAssembly: two or three adapters, a link that waits for you, and a clock that goes from event to event. Nothing leaves this page, and it needs no network.");
	make(panel, "p", {}, "The simulator of rdmad's tests is in it, too. A seed is a run, and its hash is that of all that happened; t/sim/replay --seed N prints the same.");
	const row = make(panel, "form", { class: "row", onsubmit: (e) => { e.preventDefault(); prove(); } });

	number(row, "seed", "seed", 1, 1, 1000000).id = "seed";
	make(row, "button", { id: "prove" }, "Run it here");
	make(panel, "p", { class: "bytes", id: "hash", role: "status" });
}

/* A core of its own, so that nothing of the scenario is lost. */
function prove() {
	const seed = Number($("seed").value);

	$("hash").textContent = `seed ${seed}: ${new Core(game.module).hash(0, seed)}`;
}

/* The core found a mistake of its own: its last words. */
function stopped(e) {
	const core = game.s && game.s.core, said = core && core.said.trim().split("\n").pop();

	predict.shadow = null;
	if (core)
		core.dead = true;
	$("said").textContent = `The core has stopped: ${said || e.message}. The link to this moment is in the address; Clear begins anew.`;
}

/* ---- the beginning ---- */

function begin() {
	const b64 = $("core").textContent.trim();

	game.module = new WebAssembly.Module(Uint8Array.from(atob(b64), (c) => c.charCodeAt(0)));
	const core = new Core(game.module);

	tables = core.tables();
	game.s = new Scenario(core);
	game.w = core.world();
	help();
	for (const [id, f] of [["back", () => { closeAsk(); game.s.back(); if (game.tour) game.tour.off = true; game.refresh(undefined, "One step back."); }], ["step", () => game.step()], ["run", () => game.run()],
		["clear", () => game.load([], "Two adapters, and nothing between them.")], ["link", link], ["first-lesson", () => game.begin("lost-packet", 0)], ["first-work", () => { game.refresh("work"); $("work").focus(); }],
		["predict", () => { predict.on = !predict.on; $("predict").setAttribute("aria-pressed", predict.on); if (!predict.on) closeAsk(); $("said").textContent = predict.on ? "Before each step you are asked which packet comes next." : ""; }],
		["theme", () => { wants.chosen = !document.documentElement.classList.contains("dark"); theme(); }]])
		$(id).onclick = f;
	for (const t of TABS)
		$("tab-" + t).onclick = () => game.refresh(t);
	$("tabs").onkeydown = (e) => {
		const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];

		if (!by)
			return;
		game.refresh(TABS[(TABS.indexOf(game.tab) + by + TABS.length) % TABS.length]);
		$("tab-" + game.tab).focus();
		e.preventDefault();
	};
	$("ladder").onclick = (e) => {
		const g = e.target.closest("[data-i]");

		if (g)
			game.choose(Number(g.dataset.i));
	};
	addEventListener("keydown", key);
	addEventListener("error", stopped);
	addEventListener("resize", () => game.draw());
	addEventListener("hashchange", () => { if (location.hash.slice(1) !== game.own) openLink(location.hash.slice(1)); });
	wants.dark.addEventListener("change", theme);
	wants.paper.addEventListener("change", theme);
	addEventListener("beforeprint", () => document.documentElement.classList.remove("dark"));
	addEventListener("afterprint", theme);
	theme();
	openLink(location.hash.slice(1));
	document.documentElement.dataset.ready = "";
}

begin();
