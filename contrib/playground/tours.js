/* SPDX-License-Identifier: MIT */
/*
 * tours.js - the ten lessons (contrib/labs) as guided tours: stops, each with what is done before it, what there is to see, and
 * which packet is shown. The text of a lesson and its fault file are those of contrib/labs; bundle.sh puts them into the page.
 *
 * FAULT stands for the lesson's fault file.
 */
"use strict";

const TOURS = {
	"lost-packet": [
		{ do: "FAULT q:rc:0:1 p:0:0:WRITE:1536", see: 2, say: "The client posts one RDMA WRITE of 1536 bytes. With a path MTU of 256 that is six packets, a FIRST, four MIDDLEs and a LAST, PSN 1000 to 1005. The fault of this lesson loses the third." },
		{ do: "s2", see: 1, say: "1000 and 1001 arrive and are written to memory at once. The server now expects 1002." },
		{ do: "s", see: 6, say: "1003 comes instead. The server keeps nothing that is out of order: it throws 1003 away and says so by a NAK, \"PSN sequence error\". Look at its BTH: the PSN is that which it waits for." },
		{ do: "s2", see: 5, say: "1004 and 1005 are thrown away, too - silently. One NAK for each gap." },
		{ do: "s", see: 7, say: "The NAK arrives, and the client goes back to 1002: that and all behind it is sent again. The packet is the very same, a MIDDLE with PSN 1002." },
		{ do: "s5", see: 11, say: "This time all arrive. One ACK, of 1005, acknowledges all six, and the work request completes with success. One lost packet cost four." },
	],
	"lost-ack": [
		{ do: "FAULT q:rc:0:1 v:0:1:4096:2 p:0:0:SEND:100", see: 0, say: "The server has posted two receives. The client sends a message of one packet, and asks for an ACK: the bit A of its BTH." },
		{ do: "s", see: 1, say: "It arrives, and receive 1 completes. But the ACK is lost. To the client that looks as if the packet were lost." },
		{ do: "s", see: 2, say: "Nothing can show the gap: only a timer helps. After 8 ms without any answer rdmad sends the oldest packet once more, before the ACK timeout of the specification." },
		{ do: "s", see: 3, say: "The server has carried out PSN 1000 already. A duplicate is not carried out a second time - receive 2 is still there -, but it is acknowledged. MSN is 1, as in the ACK that was lost." },
		{ do: "s p:0:0:SEND:100 s2", see: 5, say: "Exactly once. The second message goes as if nothing had been." },
	],
	rnr: [
		{ do: "q:rc:0:1:256:1000:5000:14:7:7:20 p:0:0:SEND:100", see: 0, say: "The client sends; the server has posted no receive." },
		{ do: "s", see: 1, say: "There is no place for the message. The answer is an RNR NAK, receiver not ready. The value in its syndrome, 20, is a code: wait 10.24 ms." },
		{ do: "s v:0:1:4096:1", see: 1, say: "The client waits. Now the server posts a receive; nobody tells the client." },
		{ do: "s2", see: 2, say: "When the time is over the same packet goes again, PSN 1000, and finds a receive." },
		{ do: "s", see: 3, say: "Success. rnr_retry is 7 here, which means for ever; the retries for lost packets (retry_cnt) were not touched." },
	],
	retry: [
		{ do: "FAULT q:rc:0:1:256:1000:5000:12:3 v:0:1:4096:3 p:0:0:SEND:100 s2", see: 0, say: "The first message is sent and acknowledged. From the next on nothing arrives, as if the cable were cut." },
		{ do: "p:0:0:SEND:100 p:0:0:SEND:100", see: 2, tab: "state", say: "Two more. Look at the retries that are left: 3." },
		{ do: "s4", see: 4, say: "rdmad tries early copies, after longer and longer times. They cost no retry." },
		{ do: "s", see: 8, tab: "state", say: "The ACK timeout is over: one retry less, and go-back-N takes 1002 along." },
		{ do: "s3", see: 13, tab: "state", say: "Again, and again. None is left now." },
		{ do: "s", see: 13, tab: "log", say: "The requester gives up: RETRY_EXC_ERR, the queue pair is in ERR, and what was posted behind is flushed. The server knows nothing of it: its queue pair is in RTS for ever." },
	],
	"read-middle": [
		{ do: "FAULT q:rc:0:1 p:0:0:READ:1280", see: 0, say: "A READ is one request packet, but it takes five PSNs: those of its responses. Its RETH says address, key and length." },
		{ do: "s", see: 3, say: "Five responses, PSN 1000 to 1004. The third is lost." },
		{ do: "s2", see: 2, say: "The first two are stored." },
		{ do: "s", see: 6, say: "1003 comes where 1002 was due: an implied NAK. A requester cannot NAK, but it can ask again: for what is missing only. Look at the RETH: 512 bytes further on, 768 bytes." },
		{ do: "s2", see: 7, say: "To the server the request is a duplicate; a READ may be carried out again. Its responses begin with a FIRST." },
		{ do: "s3", see: 9, say: "All is there; the READ completes. Responses are not acknowledged." },
	],
	"bad-rkey": [
		{ do: "q:rc:0:1 p:0:0:WRITE:100 s2", see: 0, say: "A WRITE with the right key is carried out." },
		{ do: "p:0:0:WRITE:100:0:1 p:0:0:WRITE:100:0:1", see: 2, say: "Two more with an rkey that is none. Compare the R_Key in the RETH with that of the first." },
		{ do: "s", see: 4, tab: "log", say: "The server checks the key before a byte moves: NAK, remote access error. It is fatal: its queue pair goes to ERR at once." },
		{ do: "s", see: 3, say: "The third WRITE is not even looked at: this queue pair receives no more." },
		{ do: "s", see: 4, tab: "log", say: "Both ends are in ERR. The WRITE completes with REM_ACCESS_ERR, the other is flushed. A peer that guesses keys gets one guess." },
	],
	"psn-wrap": [
		{ do: "FAULT q:rc:0:1:256:16777213 p:0:0:WRITE:1536", see: 3, say: "PSNs have 24 bits. This connection began at 0xfffffd, so behind the third packet comes PSN 0 - and that is lost." },
		{ do: "s3", see: 2, say: "0xfffffd, 0xfffffe and 0xffffff arrive. Expected: 0." },
		{ do: "s", see: 6, say: "1 comes: the NAK names PSN 0, and acknowledges the three before." },
		{ do: "s2", see: 7, say: "Back to 0. Code that compares PSNs by \"<\" takes 0 for something very old, and hangs here; numbers are compared by their distance modulo 2^24." },
		{ do: "s4", see: 10, say: "Success, as on any other day." },
	],
	"uc-rc": [
		{ do: "FAULT q:uc:0:1 v:0:1:4096:2 p:0:0:SEND:768 p:0:0:SEND:768", see: 1, say: "Two messages of three packets over an unreliable connection. The second packet is lost - and to the client both messages are a success already." },
		{ do: "s2", see: 2, say: "1002 where 1001 was due. The server gives up this message, without a word, and keeps the receive." },
		{ do: "s3", see: 5, say: "The second message arrives, in the receive that was meant for the first. Whole or not at all." },
		{ do: "q:rc:0:1 v:1:1:4096:2 p:1:0:SEND:768 p:1:0:SEND:768", see: 7, say: "The same over a reliable connection, and the same loss." },
		{ do: "s2", see: 12, say: "The server does not give up this time: a NAK asks for 1001, and for all behind it." },
		{ do: "s10", see: 18, say: "Both messages arrive. What is in between is lesson lost-packet." },
	],
	overrun: [
		{ do: "q:rc:0:1:256:1000:5000:14:7:0 v:0:1:4096:2 p:0:0:SEND:100 p:0:0:SEND:100 p:0:0:SEND:100 p:0:0:SEND:100", see: 0, say: "Two receives, four messages, and rnr_retry is 0. The client cannot know how many receives there are." },
		{ do: "s2", see: 4, say: "Two arrive. The value in the ACK's syndrome is 31: no credits are told, as is usual with RoCE." },
		{ do: "s", see: 6, say: "For the third there is no receive: RNR NAK." },
		{ do: "s4", see: 6, tab: "log", say: "With no RNR retry left the client's queue pair goes to ERR: RNR_RETRY_EXC_ERR, and the fourth is flushed. The server has noticed nothing." },
	],
	cm: [
		{ do: "q:cm:0:1", see: 0, tab: "state", say: "To be connected, both sides must know the other's queue pair and first PSN. The connection manager tells them: a REQ, a datagram from queue pair 1 to queue pair 1. Both queue pairs are in INIT." },
		{ do: "s", see: 1, tab: "state", say: "The server learns the client's number and PSN, goes to RTR and RTS, and answers with a REP." },
		{ do: "s", see: 2, tab: "state", say: "The client goes to RTS, too, and says RTU: ready to use." },
		{ do: "s v:0:1:4096:1 p:0:0:SEND:100", see: 3, say: "Connected. The first packet of the connection proper: its PSN is the one that the server named in its REP." },
		{ do: "s2 u:0", see: 5, say: "It is acknowledged. The client wants to end it: a DREQ." },
		{ do: "s2", see: 6, tab: "state", say: "DREP: the server agrees. Both queue pairs are in ERR." },
	],
};

/* ---- texts ---- */

function lessonText(name) {
	return document.getElementById("text-" + name).textContent.trim().replace(/^SPDX.*\n/, "").trim();
}

function lessonFault(name) {
	const e = document.getElementById("fault-" + name);

	return e ? e.textContent.trim() + "\n" : "";
}

function tokens(name, stop) {
	return TOURS[name][stop].do.split(" ").map((t) => t === "FAULT" ? "r:" + encodeURIComponent(lessonFault(name)) : t);
}

/* All that was done up to that stop. */
function tourList(name, stop) {
	const list = [];

	for (let k = 0; k <= stop; k++)
		list.push(...tokens(name, k));
	return list;
}

/* Paragraphs of a page of contrib/labs: headings in capitals, lines indented by two. */
function lessonPage(box, name) {
	const d = make(box, "div", { class: "lesson" });

	for (const part of lessonText(name).split(/\n(?=[A-Z][A-Z ]+\n)/).slice(1)) {
		const at = part.indexOf("\n"), head = part.slice(0, at), t = part.slice(at + 1).trimEnd();

		make(d, "h3", {}, head);
		make(d, /^ {2}\S+ {2,}/m.test(t) ? "pre" : "p", {}, /^ {2}\S+ {2,}/m.test(t) ? t.replace(/^ {2}/gm, "") : t.replace(/\s+/g, " ").trim());
	}
}

function showLesson() {
	const panel = document.getElementById("lesson"), t = game.tour;

	panel.textContent = "";
	if (!t) {
		make(panel, "h2", {}, "Ten lessons");
		make(panel, "p", { class: "hint" }, "Each a fault, a few steps, and what the specification says. The same as rdmad-run --lesson, on the same code.");
		const ul = make(panel, "ul", { class: "lessons" });

		for (const name in TOURS)
			make(make(ul, "li"), "button", { "data-lesson": name, onclick: () => game.begin(name, 0) }, `${name}: ${lessonText(name).split("\n")[0]}`);
		return;
	}
	const stops = TOURS[t.name], here = stops[t.stop];

	make(panel, "h2", {}, lessonText(t.name).split("\n")[0] + " ").append(make(null, "small", {}, `stop ${t.stop + 1} of ${stops.length}`));
	const box = make(panel, "div", { class: "tour" });

	make(box, "p", { id: "say" }, here.say);
	const row = make(box, "div", { class: "row no-print" });

	make(row, "button", { id: "tour-back", disabled: t.stop ? false : "", onclick: () => game.begin(t.name, t.stop - 1) }, "◂ Before");
	make(row, "button", { id: "tour-next", class: "main", "aria-keyshortcuts": "Enter", title: "Enter", disabled: t.stop + 1 < stops.length ? false : "", onclick: () => game.begin(t.name, t.stop + 1) }, "Next ▸");
	make(row, "button", { onclick: () => { game.tour = null; game.refresh("lesson"); } }, "All lessons");
	if (t.off)
		make(box, "p", { class: "hint" }, "You went your own way. Next goes on where the lesson was.");
	if (here.tab === "state")
		stateCards(panel);
	else if (here.tab === "log")
		logList(panel, 8);
	else if (game.w.packets[game.chosen])
		onePacket(panel);
	lessonPage(panel, t.name);
}
