/* SPDX-License-Identifier: MIT */
/* summary.c - see summary.h. */
#include "summary.h"

#include <stdio.h>
#include <stdlib.h>

#include "fabric.h"

typedef unsigned long long ull;

const struct port *summary_busiest(const struct fabric *f)
{
	const struct port *best = NULL;

	for (uint32_t i = 0; i < f->t->switches; i++)
		for (uint32_t k = 0; k < f->sw[i].port_n; k++) {
			const struct port *p = &f->sw[i].port[k];

			if (p->all.pkts && (!best || p->all.area > best->all.area))
				best = p;
		}
	return best;
}

/* Jain's index of what flows moved whose loads are alike: 1 if all are equal, 1/n if one has all. */
static double jain(const struct fabric *f)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < f->work.flow_n; i++) {
		double x = (double)f->work.flow[i].stored;

		sum += x;
		squares += x * x;
	}
	return squares > 0 ? sum * sum / squares / f->work.flow_n : 1;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void messages_print(const struct fabric *f)
{
	const struct work *w = &f->work;
	uint64_t *v = w->took_ns, n = w->done;

	printf("messages   %llu done", (ull)n);
	if (n) {
		qsort(v, n, sizeof(*v), by_size);
		printf("; they took, in us: least %.1f, median %.1f, 99%% %.1f, most %.1f", (double)v[0] / 1e3,
		       (double)v[n / 2] / 1e3, (double)v[n - 1 - n / 100] / 1e3, (double)v[n - 1] / 1e3);
	}
	putchar('\n');
}

static void busiest_print(const struct fabric *f)
{
	const struct port *p = summary_busiest(f);
	const struct ecn *e;
	char name[NAME_ROOM + 16], other[NAME_ROOM + 16];
	double all;

	if (!p)
		return;
	e = p->ecn;
	all = (double)f->agenda.now_ns / 100;
	topology_name(f->t, p->node, name, sizeof(name));
	topology_name(f->t, p->other, other, sizeof(other));
	printf("queue      of the busiest port, %s>%s: mean %.0f bytes, most %llu", name, other,
	       (double)p->all.area / (double)f->agenda.now_ns, (ull)p->all.most);
	if (e->on)
		printf("; below kmin %.1f%% of the time, up to kmax %.1f%%, above %.1f%%", (double)p->band_ns[0] / all,
		       (double)p->band_ns[1] / all, (double)p->band_ns[2] / all);
	printf("\nlink       of that port: %.3f Gbit/s of %.3f\n",
	       (double)p->all.sent_len * 8 / (double)f->agenda.now_ns, (double)p->rate / 1e9);
}

static void failed_print(const struct fabric *f)
{
	for (uint32_t i = 0, said = 0; i < f->work.flow_n && said < 5; i++) {
		const struct flow *flow = &f->work.flow[i];

		if (!flow->status)
			continue;
		printf("failed     flow %u, host%u to host%u, message %llu: status %u (ibv_wc_status)\n", i, flow->from,
		       flow->to, (ull)flow->done, flow->status);
		said++;
	}
	if (f->work.failed > 5)
		printf("failed     %u flows in all\n", f->work.failed);
}

void summary_print(const struct fabric *f, const struct summary_cost *cost)
{
	const struct topology *t = f->t;
	struct port_log all = { 0 };
	uint64_t under_way, dropped = fabric_check(f, &under_way), pkts = f->offered ? f->offered : 1;
	double ns = (double)f->agenda.now_ns;

	for (uint32_t i = 0; i < t->switches; i++)
		for (uint32_t k = 0; k < f->sw[i].port_n; k++) {
			all.marks += f->sw[i].port[k].all.marks;
			all.pauses += f->sw[i].port[k].all.pauses;
		}
	printf("fabric     %u hosts, %u switch%s, %u links, %u flows, seed %llu\n", t->hosts, t->switches,
	       t->switches == 1 ? "" : "es", t->cable_n, f->work.flow_n, (ull)t->seed);
	printf("time       %.6f s virtual, %.2f s real\n", ns / 1e9, (double)cost->real_ns / 1e9);
	printf("cost       %llu packets, %.0f ns of processor each; %.0f MiB of memory, %.0f KiB a host; %.2f s to set "
	       "up\n",
	       (ull)f->offered, (double)cost->run_ns / (double)pkts, (double)cost->memory_len / 0x1p20,
	       (double)cost->memory_len / 0x1p10 / t->hosts, (double)cost->set_up_ns / 1e9);
	messages_print(f);
	printf("goodput    %.3f Gbit/s of all flows; Jain's index of what each moved: %.4f\n",
	       ns > 0 ? (double)f->csv.moved_len * 8 / ns : 0, jain(f));
	busiest_print(f);
	printf("congestion %llu marks, %llu CNPs, %llu pauses, %llu drops, %llu times sent again\n", (ull)all.marks,
	       (ull)f->csv.cnps, (ull)all.pauses, (ull)dropped, (ull)f->csv.retrans);
	printf("packets    %llu sent = %llu delivered + %llu dropped + %llu under way\n", (ull)f->offered,
	       (ull)f->delivered, (ull)dropped, (ull)under_way);
	failed_print(f);
}
