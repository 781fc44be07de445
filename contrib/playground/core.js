/* SPDX-License-Identifier: MIT */
/*
 * core.js - the transport core in WebAssembly, and a scenario: the list of all that was done to it.
 *
 * A scenario is replayed from its beginning to go back a step, and to look ahead; its text is what a link carries.
 * Nothing here touches the page.
 */
"use strict";

const NODE = ["client", "server", "third"];
const TYPE = { rc: 2, uc: 3, ud: 4, cm: 2 };
const TYPE_NAME = { 2: "RC", 3: "UC", 4: "UD" };
const MTU = { 256: 1, 512: 2, 1024: 3 };
const HAND = { x: 0, d: 1, t: 2, c: 3, n: 4 };
const STATUS = { 0: "success", 1: "LOC_LEN_ERR", 2: "LOC_QP_OP_ERR", 4: "LOC_PROT_ERR", 5: "WR_FLUSH_ERR", 8: "LOC_ACCESS_ERR",
	9: "REM_INV_REQ_ERR", 10: "REM_ACCESS_ERR", 11: "REM_OP_ERR", 12: "RETRY_EXC_ERR", 13: "RNR_RETRY_EXC_ERR", 7: "BAD_RESP_ERR",
	19: "FATAL_ERR", 20: "RESP_TIMEOUT_ERR", 21: "GENERAL_ERR" };
const BEGIN_NS = 1000000;	/* of the clock: see world_new() */
const STEPS_MAX = 4000;
const FULL = "this scenario is full: Clear, or Back";

class Core {
	constructor(module) {
		const need = WebAssembly.Module.imports(module), imports = {};

		/* The C library asks for files; there is only a place for last words. */
		for (const i of need)
			imports[i.name] = () => 52;
		imports.fd_write = (fd, iov, n, out) => this.write(iov, n, out);
		this.said = "";
		this.module = module;
		this.dead = false;	/* it has trapped */
		this.x = new WebAssembly.Instance(module, { wasi_snapshot_preview1: imports }).exports;
		this.x._initialize();
	}

	write(iov, n, out) {
		const d = new DataView(this.x.memory.buffer);
		let all = 0;

		for (let i = 0; i < n; i++) {
			const at = d.getUint32(iov + 8 * i, true), len = d.getUint32(iov + 8 * i + 4, true);

			this.said += new TextDecoder().decode(new Uint8Array(this.x.memory.buffer, at, len));
			all += len;
		}
		d.setUint32(out, all, true);
		return 0;
	}

	text(at) {
		const b = new Uint8Array(this.x.memory.buffer);

		return new TextDecoder().decode(b.subarray(at, b.indexOf(0, at)));
	}

	give(s) {
		const b = new TextEncoder().encode(s).subarray(0, 65534), at = this.x.play_buf();

		new Uint8Array(this.x.memory.buffer).set([...b, 0], at);
	}

	tables() { return JSON.parse(this.text(this.x.play_tables())); }
	hash(kind, seed) { return this.text(this.x.play_hash(kind, seed)); }

	world() {
		const w = JSON.parse(this.text(this.x.play_world()));

		w.packets.forEach((p, i) => read(p, i));
		return w;
	}
}

/* ---- packets ---- */

let tables = null;

function bits(p, at, n) {
	let v = 0n;

	for (let i = at; i < at + n; i++)
		v = v << 1n | BigInt(p.bytes[i >> 3] >> (7 - i % 8) & 1);
	return v;
}

/* Beside its bytes: their meaning. */
function read(p, i) {
	p.i = i;
	p.bytes = new Uint8Array(p.data.match(/../g).map((x) => parseInt(x, 16)));
	p.op = tables.opcodes[p.bytes[0]];
	p.psn = Number(bits(p, 72, 24));
	p.dest = Number(bits(p, 40, 24));
	p.ackreq = p.bytes[8] >> 7;
	p.pad = p.bytes[1] >> 4 & 3;
	p.parts = [];
	let at = 0;

	for (const h of tables.headers) {
		if (h.name === "ICRC" || (h.bit && !(p.op && p.op.hdrs & h.bit)))
			continue;
		p.parts.push({ header: h, at });
		at += h.len;
	}
	p.payload = at;
	p.len = Math.max(0, p.bytes.length - 4 - at - p.pad);
	p.parts.push({ header: tables.headers.find((h) => h.name === "ICRC"), at: p.bytes.length - 4 });
	const aeth = p.parts.find((q) => q.header.name === "AETH");

	p.syndrome = aeth ? p.bytes[aeth.at] : -1;
	p.msn = aeth ? Number(bits(p, 8 * aeth.at + 8, 24)) : 0;
	p.css = p.dest === 1 ? "cm" : !p.op ? "other" : p.op.name.startsWith("UD") ? "ud" :
		p.syndrome >> 5 === 1 && p.op.role === 4 ? "rnr" : p.syndrome >> 5 === 3 && p.op.role === 4 ? "nak" :
		p.op.role === 4 ? "ack" : { SEND: "send", WRITE: "write", READ: "read", RESP: "read", ATOMIC: "atomic", ATOMIC_ACK: "atomic" }[tables.kinds[p.op.kind]] || "other";
}

const NAK = ["PSN sequence", "invalid request", "remote access", "remote operation", "invalid RD"];
const CM = { 0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP" };

function packetName(p) {
	if (p.css === "cm")
		return CM[p.bytes[p.payload + 17]] || "MAD";
	if (!p.op)
		return "opcode " + p.bytes[0];
	if (p.css === "rnr")
		return "RNR NAK";
	if (p.css === "nak")
		return "NAK " + (NAK[p.syndrome & 31] || "?");
	if (p.css === "ack")
		return "ACK";
	return p.op.name.replace(/^[A-Z]+_/, "").replace(/_/g, " ").replace("RESP", "RESPONSE");
}

function packetWords(p) {
	return `${packetName(p)}, PSN ${p.psn}, ${NODE[p.from]} to ${NODE[p.to]}`;
}

/* ---- scenarios ---- */

class Scenario {
	constructor(core) {
		this.core = core;
		this.load([]);
	}

	/* Tokens; what is not understood is left out, and said. */
	load(list) {
		const h = list.length && /^h([23])$/.exec(list[0]);

		if (this.core.dead)
			this.core = new Core(this.core.module);
		this.hcas = h ? Number(h[1]) : 2;
		this.log = [];
		this.bad = [];
		this.rules = "";
		this.core.x.play_new(this.hcas);
		for (const t of h ? list.slice(1) : list)
			if (this.act(t) === FULL)
				break;
	}

	list() { return (this.hcas === 3 ? ["h3"] : []).concat(this.log); }

	/* One token; "" or what is wrong. What there was no room for did not happen. */
	act(token) {
		const said = this.done(token), bad = this.bad;

		if (!this.core.x.play_full())
			return said;
		this.load(this.list());
		this.bad = bad.concat(token + ": " + FULL);
		return FULL;
	}

	/* Steps of a row become one token. */
	done(token) {
		const a = token.split(":"), last = this.log.length - 1;
		const many = /^s(\d*)$/.exec(token);
		let said = "";

		if (many) {
			let n = 0;

			for (let k = Math.min(STEPS_MAX, Number(many[1] || 1)); k && (this.what = this.core.x.play_step()) && !this.core.x.play_full(); k--)
				n++;
			if (!n)
				return "nothing will happen any more: post something";
			const before = last >= 0 && /^s(\d*)$/.exec(this.log[last]);

			if (before)
				this.log[last] = "s" + (Number(before[1] || 1) + n);
			else
				this.log.push(n > 1 ? "s" + n : "s");
			return "";
		}
		said = this.one(a, token);
		if (said)
			this.bad.push(token + ": " + said);
		else if (!this.core.x.play_full())
			this.log.push(token);
		return said;
	}

	one(a, token) {
		const words = { q: [1], p: [3], r: [...a.keys()] }[a[0]] || [];

		if (a.slice(1).some((x, i) => !/^\d*$/.test(x) && !words.includes(i + 1)))
			return "there are numbers between colons";
		const x = this.core.x, num = (i, d) => a[i] === undefined || a[i] === "" ? d : Number(a[i]) >>> 0;

		switch (a[0]) {
		case "q":
			if (!Object.hasOwn(TYPE, a[1]) || !MTU[num(4, 256)])
				return "no such connection";
			return x.play_pair(TYPE[a[1]], num(2, 0), num(3, 1), MTU[num(4, 256)], num(5, 1000), num(6, 5000), num(7, 14), num(8, 7),
				num(9, 7), num(10, 12), a[1] === "cm" ? 1 : 0) < 0 ? "not possible: eight connections, each between two HCAs" : "";
		case "v": {
			let n = 0;

			while (n < Math.min(64, num(4, 1)) && !x.play_recv(num(1, 0), num(2, 1), num(3, 4096)))
				n++;
			return n ? "" : "the receive was refused: the queue is full, or the length too large";
		}
		case "p": {
			const op = Object.keys(tables.wr).find((k) => tables.wr[k].name === a[3]);
			const e = op === undefined ? 22 : x.play_post(num(1, 0), num(2, 0), Number(op), num(4, 0), num(5, 0), num(6, 0), num(7, 0), num(8, 0));

			return e === 12 ? "refused (ENOMEM): the send queue is full, or 64 sends of this adapter are not complete" : e ? "refused (EINVAL): not in this state, or not on this type" : "";
		}
		case "u": return x.play_hangup(num(1, 0)) ? "not connected by the CM" : "";
		case "r":
			try {
				return this.setRules(decodeURIComponent(token.slice(2)));
			} catch (e) {
				return "not a text";
			}
		case "x": case "d": case "t": case "c": case "n":
			return x.play_hand(num(1, 0), HAND[a[0]], num(2, 0)) ? "that packet is not under way any more" : "";
		}
		return "not understood";
	}

	setRules(text) {
		this.core.give(text);
		const e = this.core.text(this.core.x.play_rules());

		if (!e)
			this.rules = text;
		return e;
	}

	back() {
		const list = this.list(), t = list.pop(), s = /^s(\d+)$/.exec(t || "");

		if (!t)
			return;
		if (s && Number(s[1]) > 1)
			list.push(Number(s[1]) > 2 ? "s" + (Number(s[1]) - 1) : "s");
		this.load(list);
	}
}
