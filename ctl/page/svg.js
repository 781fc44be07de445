/* SPDX-License-Identifier: MIT */
/* svg.js - an element of a picture; here for the page of a ladder, and for the playground. */
"use strict";

const NS = "http://www.w3.org/2000/svg";

function el(parent, name, attrs, text) {
	const e = document.createElementNS(NS, name);

	for (const k in attrs)
		e.setAttribute(k, attrs[k]);
	if (text !== undefined)
		e.textContent = text;
	if (parent)
		parent.appendChild(e);
	return e;
}
