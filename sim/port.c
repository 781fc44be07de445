/* SPDX-License-Identifier: MIT */
/* port.c - see port.h. */
#include "port.h"

#include <string.h>

static void fifo_put(struct fifo *f, struct packet *p)
{
	p->next = NULL;
	if (f->head)
		f->tail->next = p;
	else
		f->head = p;
	f->tail = p;
	f->len += p->len;
}

static struct packet *fifo_take(struct fifo *f)
{
	struct packet *p = f->head;

	f->head = p->next;
	f->len -= p->len;
	return p;
}

/* The queue of data is about to change. */
static void queue_note(const struct agenda *a, struct port *port)
{
	uint64_t len = port->queue[CLASS_DATA].len, ns = a->now_ns - port->changed_at;

	port->log.area += (unsigned __int128)len * ns;
	if (port->ecn)
		port->band_ns[len < port->ecn->kmin ? 0 : len <= port->ecn->kmax ? 1 : 2] += ns;
	port->changed_at = a->now_ns;
}

static struct packet *next_packet(const struct agenda *a, struct port *port)
{
	for (unsigned c = 0; c < CLASSES; c++) {
		if (!port->queue[c].head || (c == CLASS_DATA && port->paused))
			continue;
		if (c == CLASS_DATA)
			queue_note(a, port);
		return fifo_take(&port->queue[c]);
	}
	return NULL;
}

static void start(struct agenda *a, struct port *port)
{
	struct packet *p = port->busy ? NULL : next_packet(a, port);
	uint64_t bits_ns, ns;

	if (!p)
		return;
	bits_ns = p->len * 8000000000u + port->rest;
	ns = bits_ns / port->rate;
	port->rest = bits_ns % port->rate;
	port->busy = true;
	port->out_len = p->class == CLASS_DATA ? p->len : 0;
	port->out_in = p->in;
	port->out_spare = p->spare;
	port->log.sent_len += p->len;
	port->log.pkts++;
	agenda_set(a, &port->sent, a->now_ns + ns);
	p->arrive_ns = a->now_ns + ns + port->delay_ns;
	fifo_put(&port->wire, p);
	if (!moment_is_set(&port->arrived))
		agenda_set(a, &port->arrived, p->arrive_ns);
}

void port_put(struct agenda *a, struct port *port, struct packet *p)
{
	if (p->class == CLASS_DATA)
		queue_note(a, port);
	fifo_put(&port->queue[p->class], p);
	if (port->queue[CLASS_DATA].len > port->log.most)
		port->log.most = port->queue[CLASS_DATA].len;
	start(a, port);
}

void port_sent(struct agenda *a, struct port *port)
{
	port->busy = false;
	start(a, port);
}

struct packet *port_arrived(struct agenda *a, struct port *port)
{
	struct packet *p = fifo_take(&port->wire);

	if (port->wire.head)
		agenda_set(a, &port->arrived, port->wire.head->arrive_ns);
	return p;
}

void port_pause(struct agenda *a, struct port *port, bool pause)
{
	if (port->paused && !pause)
		port->log.paused_ns += a->now_ns - port->paused_at;
	if (!port->paused && pause)
		port->paused_at = a->now_ns;
	port->paused = pause;
	start(a, port);
}

void port_log_now(const struct agenda *a, struct port *port)
{
	queue_note(a, port);
	if (!port->paused)
		return;
	port->log.paused_ns += a->now_ns - port->paused_at;
	port->paused_at = a->now_ns;
}

void port_log_next(struct port *port)
{
	struct port_log *l = &port->log, *all = &port->all;

	all->sent_len += l->sent_len;
	all->pkts += l->pkts;
	all->marks += l->marks;
	all->drops += l->drops;
	all->pauses += l->pauses;
	all->paused_ns += l->paused_ns;
	all->area += l->area;
	if (l->most > all->most)
		all->most = l->most;
	*l = (struct port_log){ .most = port->queue[CLASS_DATA].len };
}

static uint64_t fifo_pkts(const struct fifo *f)
{
	uint64_t n = 0;

	for (const struct packet *p = f->head; p; p = p->next)
		n += p->class != CLASS_PAUSE;
	return n;
}

uint64_t port_pkts(const struct port *port)
{
	return fifo_pkts(&port->queue[CLASS_DATA]) + fifo_pkts(&port->queue[CLASS_CNP]) + fifo_pkts(&port->wire);
}

void port_fini(struct packets *all, struct port *port)
{
	while (port->wire.head)
		packet_put(all, fifo_take(&port->wire));
	for (unsigned c = 0; c < CLASSES; c++)
		while (port->queue[c].head)
			packet_put(all, fifo_take(&port->queue[c]));
}
