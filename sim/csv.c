/* SPDX-License-Identifier: MIT */
/* csv.c - see csv.h. */
#include "csv.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fabric.h"
#include "plot.h"
#include "say.h"

typedef unsigned long long ull;

static const struct {
	const char *name, *head;
} files[CSV_FILES] = {
	[CSV_TOTAL] = { "total.csv", "time_us,goodput_mbit,sent_packets,marks,cnps,drops,pauses,paused_us,"
				     "retransmitted,queued_bytes,"
				     "longest_queue_bytes" },
	[CSV_PORTS] = { "ports.csv",
			"time_us,port,queue_bytes,queue_mean_bytes,queue_most_bytes,sent_mbit,marks,drops,pauses_sent,"
			"paused_us" },
	[CSV_FLOWS] = { "flows.csv", "time_us,flow,from,to,goodput_mbit" },
	[CSV_MESSAGES] = { "messages.csv", "flow,message,from,to,bytes,start_us,end_us,took_us" },
};

static FILE *create(const char *dir, const char *name)
{
	char path[4096];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		die("%s: the name is too long", dir);
	file = fopen(path, "w");
	if (!file)
		die("cannot write %s: %s", path, strerror(errno));
	return file;
}

static void finish(FILE *file, const char *dir, const char *name)
{
	bool bad = ferror(file);

	if (fclose(file) || bad)
		die("%s/%s is not whole: %s", dir, name, strerror(errno));
}

void csv_open(struct fabric *f, const char *dir)
{
	if (mkdir(dir, 0777) && errno != EEXIST)
		die("cannot make the directory %s: %s", dir, strerror(errno));
	f->csv.dir = dir;
	for (unsigned i = 0; i < CSV_FILES; i++) {
		f->csv.file[i] = create(dir, files[i].name);
		fprintf(f->csv.file[i], "%s\n", files[i].head);
	}
}

void csv_close(struct fabric *f)
{
	FILE *script;

	if (!f->csv.dir)
		return;
	for (unsigned i = 0; i < CSV_FILES; i++)
		finish(f->csv.file[i], f->csv.dir, files[i].name);
	script = create(f->csv.dir, "plot.gp");
	plot_write(f, script);
	finish(script, f->csv.dir, "plot.gp");
}

/* us with three places, by integers: the same everywhere. */
static void put_us(FILE *file, uint64_t ns) { fprintf(file, "%llu.%03llu", (ull)(ns / 1000), (ull)(ns % 1000)); }

/* Mbit/s with three places. */
static void put_mbit(FILE *file, uint64_t bytes, uint64_t ns)
{
	uint64_t kbit = (uint64_t)((unsigned __int128)bytes * 8000000 / ns);

	fprintf(file, "%llu.%03llu", (ull)(kbit / 1000), (ull)(kbit % 1000));
}

/* NULL: no row is wanted, or no time has passed since the last one. */
static FILE *rows_of(const struct fabric *f, enum csv_file i, uint64_t ns) { return ns ? f->csv.file[i] : NULL; }

/* ---- a sample ---------------------------------------------------------------------------------------- */

struct sums {
	struct port_log log;
	uint64_t queued, moved, cnps, retrans;
};

static void port_row(const struct fabric *f, const struct port *p, uint64_t ns)
{
	FILE *out = rows_of(f, CSV_PORTS, ns);
	const struct port_log *l = &p->log;
	char name[NAME_ROOM + 16], other[NAME_ROOM + 16];

	if (!out || !(l->pkts || l->most || l->drops || l->pauses || l->paused_ns))
		return;
	topology_name(f->t, p->node, name, sizeof(name));
	topology_name(f->t, p->other, other, sizeof(other));
	put_us(out, f->agenda.now_ns);
	fprintf(out, ",%s>%s,%llu,%llu,%llu,", name, other, (ull)p->queue[CLASS_DATA].len, (ull)(l->area / ns),
		(ull)l->most);
	put_mbit(out, l->sent_len, ns);
	fprintf(out, ",%llu,%llu,%llu,", (ull)l->marks, (ull)l->drops, (ull)l->pauses);
	put_us(out, l->paused_ns);
	putc('\n', out);
}

static void port_sample(const struct fabric *f, struct port *p, uint64_t ns, struct sums *sum)
{
	const struct port_log *l = &p->log;

	port_log_now(&f->agenda, p);
	port_row(f, p, ns);
	sum->log.marks += l->marks;
	sum->log.drops += l->drops;
	sum->log.pauses += l->pauses;
	sum->log.paused_ns += l->paused_ns;
	if (p->node >= f->t->hosts) {
		sum->queued += p->queue[CLASS_DATA].len;
		if (l->most > sum->log.most)
			sum->log.most = l->most;
	}
	port_log_next(p);
}

static void host_sample(const struct fabric *f, struct host *h, uint64_t ns, struct sums *sum)
{
	uint64_t cnps = hca_stat(h->hca, HCA_STAT_NP_CNP_SENT),
		 retrans = hca_stat(h->hca, HCA_STAT_COMPLETER_RETRY_ERR);

	port_sample(f, &h->port, ns, sum);
	sum->cnps += cnps - h->seen_cnps;
	sum->retrans += retrans - h->seen_retrans;
	h->seen_cnps = cnps;
	h->seen_retrans = retrans;
}

static void flow_sample(const struct fabric *f, struct flow *flow, uint64_t ns, struct sums *sum)
{
	uint64_t moved = flow->stored - flow->seen;
	FILE *out = rows_of(f, CSV_FLOWS, ns);

	flow->seen = flow->stored;
	sum->moved += moved;
	if (!out || !moved)
		return;
	put_us(out, f->agenda.now_ns);
	fprintf(out, ",%u,host%u,host%u,", flow->i, flow->from, flow->to);
	put_mbit(out, moved, ns);
	putc('\n', out);
}

static void total_row(const struct fabric *f, uint64_t ns, const struct sums *sum)
{
	FILE *out = rows_of(f, CSV_TOTAL, ns);

	if (!out)
		return;
	put_us(out, f->agenda.now_ns);
	putc(',', out);
	put_mbit(out, sum->moved, ns);
	fprintf(out, ",%llu,%llu,%llu,%llu,%llu,", (ull)sum->log.pkts, (ull)sum->log.marks, (ull)sum->cnps,
		(ull)sum->log.drops, (ull)sum->log.pauses);
	put_us(out, sum->log.paused_ns);
	fprintf(out, ",%llu,%llu,%llu\n", (ull)sum->retrans, (ull)sum->queued, (ull)sum->log.most);
}

void csv_sample(struct fabric *f)
{
	uint64_t ns = f->agenda.now_ns - f->csv.last_ns;
	struct sums sum = { .log.pkts = f->offered - f->csv.offered };

	f->csv.last_ns = f->agenda.now_ns;
	for (uint32_t i = 0; i < f->t->hosts; i++)
		host_sample(f, &f->host[i], ns, &sum);
	for (uint32_t i = 0; i < f->t->switches; i++)
		for (uint32_t k = 0; k < f->sw[i].port_n; k++)
			port_sample(f, &f->sw[i].port[k], ns, &sum);
	for (uint32_t i = 0; i < f->work.flow_n; i++)
		flow_sample(f, &f->work.flow[i], ns, &sum);
	total_row(f, ns, &sum);
	f->csv.offered = f->offered;
	f->csv.cnps += sum.cnps;
	f->csv.retrans += sum.retrans;
	f->csv.moved_len += sum.moved;
}

void csv_message(struct fabric *f, const struct flow *flow, uint64_t i, uint64_t began_ns)
{
	FILE *out = f->csv.file[CSV_MESSAGES];
	uint64_t now = f->agenda.now_ns;

	if (!out)
		return;
	fprintf(out, "%u,%llu,host%u,host%u,%llu,", flow->i, (ull)i, flow->from, flow->to, (ull)flow->size);
	put_us(out, began_ns);
	putc(',', out);
	put_us(out, now);
	putc(',', out);
	put_us(out, now - began_ns);
	putc('\n', out);
}
