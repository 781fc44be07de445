/* SPDX-License-Identifier: MIT */
/* top_text.c - a sample as a table: 80 columns hold what matters, more hold the window, the queues and the peer. */
#include <string.h>

#include "top.h"

#define WIDE 106

static const char *const sort_names[SORTS] = { "rate", "sent again", "in flight", "QP number", "program" };

/* 5 characters at the most: 950, 1.2K, 12M, 1.1G. */
static const char *brief(char *buf, size_t len, double n)
{
	static const char units[] = " KMGTP";
	unsigned u = 0;

	while (n >= 999.5 && u < 5) {
		n /= 1000;
		u++;
	}
	if (!u)
		snprintf(buf, len, "%.0f", n);
	else
		snprintf(buf, len, n < 9.95 ? "%.1f%c" : "%.0f%c", n, units[u]);
	return buf;
}

/* "RC RTS", "XRCS RTS" */
static const char *kind(char *buf, size_t len, const struct top_qp *q)
{
	const char *type = !strcmp(q->type, "XRC_SEND") ? "XRCS" : !strcmp(q->type, "XRC_RECV") ? "XRCR" : q->type;

	snprintf(buf, len, "%-4.4s %.5s", type, q->state);
	return buf;
}

static void line(const struct top_qp *q, FILE *f, bool wide, bool marks)
{
	char tx[16], rx[16], pk[16], fl[16], ag[16], rn[16], wi[16], st[24];
	bool bad = !strcmp(q->state, "ERR") || !strcmp(q->state, "SQE"), busy = q->packet_rate > 0,
	     worse = q->retrans_rate > 0;
	char retry[16] = "-";

	if (q->retry_max)
		snprintf(retry, sizeof(retry), "%u/%u", q->retries, q->retry_max);
	if (marks && (bad || worse || !busy))
		putc(bad || worse ? 3 : 4, f);
	fprintf(f, "%-11.11s %7lld %#8x %-10.10s %5s %5s %5s %5s %5s %5s %4s", q->program, q->pid, q->qpn,
		kind(st, sizeof(st), q), q->fresh ? "new" : brief(tx, sizeof(tx), q->tx_rate),
		q->fresh ? "-" : brief(rx, sizeof(rx), q->rx_rate),
		q->fresh ? "-" : brief(pk, sizeof(pk), q->packet_rate), brief(fl, sizeof(fl), (double)q->inflight),
		retry, brief(ag, sizeof(ag), (double)q->retrans), brief(rn, sizeof(rn), (double)q->rnrs));
	if (wide) {
		fprintf(f, " %6s %5u %5u  ", q->window ? brief(wi, sizeof(wi), (double)q->window) : "-", q->sends,
			q->recvs);
		if (*q->peer)
			fprintf(f, "%s %#x", q->peer, q->dest_qpn);
		else
			fputs("-", f);
	}
	if (marks && (bad || worse || !busy))
		putc(2, f);
	putc('\n', f);
}

static void heading(const struct top_sample *s, FILE *f, enum top_sort sort, bool marks)
{
	double tx = 0, rx = 0;
	char a[16], b[16], n[4][16];
	unsigned busy = 0;

	for (size_t i = 0; i < s->n; i++) {
		tx += s->qp[i].tx_rate;
		rx += s->qp[i].rx_rate;
		busy += s->qp[i].packet_rate > 0;
	}
	fprintf(f, "rdmad %s: %u device%s, %zu QP%s, %u busy; sent %sB/s, received %sB/s\n", s->version, s->devices,
		s->devices == 1 ? "" : "s", s->n, s->n == 1 ? "" : "s", busy, brief(a, sizeof(a), tx),
		brief(b, sizeof(b), rx));
	for (unsigned i = 0; i < 4; i++)
		brief(n[i], sizeof(n[i]), s->rate[i]);
	fprintf(f, "per second: %s go back, %s RNR NAK, %s NAK, %s timeout; order: %s\n", n[0], n[1], n[2], n[3],
		sort_names[sort]);
	fprintf(f, "%s", marks ? "\1" : "");
}

void top_text(const struct top_sample *s, FILE *f, int columns, int lines, enum top_sort sort, bool marks)
{
	bool wide = columns >= WIDE;
	size_t shown = s->n, room = lines > 4 ? (size_t)lines - 4 : 1;

	heading(s, f, sort, marks);
	fprintf(f, "%-11s %7s %8s %-10s %5s %5s %5s %5s %5s %5s %4s%s%s\n", "PROGRAM", "PID", "QPN", "TYPE STATE",
		"TX/s", "RX/s", "PKT/s", "FLY", "RETRY", "AGAIN", "RNR", wide ? " WINDOW SENDS RECVS  PEER" : "",
		marks ? "\2" : "");
	if (lines && shown > room)
		shown = room - 1;
	for (size_t i = 0; i < shown; i++)
		line(&s->qp[i], f, wide, marks);
	if (shown < s->n)
		fprintf(f, "... and %zu more\n", s->n - shown);
	if (!s->n)
		fputs("no program has a queue pair\n", f);
}
