/* SPDX-License-Identifier: MIT */
/* plot.c - see plot.h. */
#include "plot.h"

#include "fabric.h"
#include "summary.h"

#define FLOWS_DRAWN 16u

static void head(FILE *out)
{
	fputs("# Made by rdmad-sim; to see it:  gnuplot plot.gp\n"
	      "set datafile separator ','\n"
	      "set terminal svg size 900,420 background 'white'\n"
	      "set key outside right top\n"
	      "set grid\n"
	      "set xlabel 'ms'\n"
	      "set yrange [0:*]\n",
	      out);
}

static void goodput(const struct fabric *f, FILE *out)
{
	fputs("\nset output 'goodput.svg'\n"
	      "set ylabel 'Gbit/s'\n"
	      "plot 'total.csv' using ($1/1000):($2/1000) every ::1 with lines lw 2 title 'all flows'",
	      out);
	for (uint32_t i = 0; i < f->work.flow_n && f->work.flow_n <= FLOWS_DRAWN; i++)
		fprintf(out,
			", \\\n  'flows.csv' using ($1/1000):($2==%u ? $5/1000 : NaN) every ::1 with points pt 7 ps "
			"0.2 title 'host%u to host%u'",
			i, f->work.flow[i].from, f->work.flow[i].to);
	putc('\n', out);
}

static void queue(const struct fabric *f, FILE *out)
{
	const struct port *p = summary_busiest(f);
	char name[NAME_ROOM + 16], other[NAME_ROOM + 16];

	if (!p)
		return;
	topology_name(f->t, p->node, name, sizeof(name));
	topology_name(f->t, p->other, other, sizeof(other));
	fprintf(out,
		"\nset output 'queue.svg'\n"
		"set ylabel 'KiB in the queue of %s>%s'\n"
		"port = '%s>%s'\n"
		"plot 'ports.csv' using (strcol(2) eq port ? $1/1000 : NaN):($5/1024) every ::1 with points pt 7 ps "
		"0.2 title 'most', \\\n"
		"  'ports.csv' using (strcol(2) eq port ? $1/1000 : NaN):($4/1024) every ::1 with points pt 7 ps 0.3 "
		"title 'mean'",
		name, other, name, other);
	if (p->ecn->on)
		fprintf(out, ", \\\n  %f dt 2 title 'kmin', %f dt 3 title 'kmax'", (double)p->ecn->kmin / 1024,
			(double)p->ecn->kmax / 1024);
	putc('\n', out);
}

static void events(FILE *out)
{
	fputs("\nset output 'congestion.svg'\n"
	      "set ylabel 'in a sample'\n"
	      "plot 'total.csv' using ($1/1000):4 every ::1 with lines title 'marks', \\\n"
	      "  '' using ($1/1000):5 every ::1 with lines title 'CNPs', \\\n"
	      "  '' using ($1/1000):6 every ::1 with lines title 'drops', \\\n"
	      "  '' using ($1/1000):7 every ::1 with lines title 'pauses'\n",
	      out);
}

static void messages(const struct fabric *f, FILE *out)
{
	if (!f->work.done)
		return;
	fputs("\nset output 'messages.svg'\n"
	      "set xlabel 'us that a message took'\n"
	      "set ylabel 'share of the messages'\n"
	      "set yrange [0:1]\n"
	      "plot 'messages.csv' using 8:(1) every ::1 smooth cnorm with lines lw 2 notitle\n",
	      out);
}

void plot_write(const struct fabric *f, FILE *out)
{
	head(out);
	goodput(f, out);
	queue(f, out);
	events(out);
	messages(f, out);
}
