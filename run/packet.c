/* SPDX-License-Identifier: MIT */
/* packet.c - packets of the daemon's list of decisions, for people, and as rules that meet them again. */
#include "config.h"

#include "field.h"
#include "packet.h"

#include <ctype.h>
#include <string.h>

static void word_put(struct packet *p, unsigned syndrome)
{
	static const char *const acks[] = { "ack", "rnr", "ack", "nak" };
	const char *op = strchr(p->opcode, '_');
	char *w;

	if (p->cm)
		snprintf(p->word, sizeof(p->word), "cm-%s", p->opcode);
	else if (op && !strcmp(op, "_ACKNOWLEDGE"))
		snprintf(p->word, sizeof(p->word), "%s", acks[syndrome >> 5 & 3]);
	else
		snprintf(p->word, sizeof(p->word), "%s", op ? op + 1 : p->opcode);
	for (w = p->word; *w; w++)
		*w = p->cm && *w == '_' ? '-' : (char)tolower((unsigned char)*w);
}

bool packet_read(struct packet *p, const json_t *j)
{
	const char *cm = str(j, "cm"), *kind = str(j, "kind");

	*p = (struct packet){ .cm = *cm, .nth = 1, .sender = (unsigned)num(j, "qp_sender") };
	snprintf(p->opcode, sizeof(p->opcode), "%s", p->cm ? cm : str(j, "opcode"));
	if (!p->cm && !p->sender)
		return false;
	p->in = !strcmp(str(j, "direction"), "in");
	p->bytes = (unsigned)num(j, "bytes");
	p->kind = !strcmp(kind, "request") ? PKT_REQUEST : !strcmp(kind, "response") ? PKT_RESPONSE : PKT_ACK;
	p->has_rel = json_object_get(j, "psn_rel");
	p->rel = (int)num(j, "psn_rel");
	p->iter = (unsigned)num(j, "iter");
	word_put(p, (unsigned)num(j, "syndrome"));
	return true;
}

bool packet_is_ack(const struct packet *p) { return p->kind == PKT_ACK && !p->cm && p->has_rel; }

bool packet_same(const struct packet *a, const struct packet *b)
{
	return a->in == b->in && a->sender == b->sender && !strcmp(a->word, b->word) && a->has_rel == b->has_rel &&
	       a->rel == b->rel && (packet_is_ack(a) || a->iter == b->iter);
}

size_t packet_tell(const struct packet *p, char *text, size_t len)
{
	char psn[24] = "", times[32] = "", sent[32] = "";
	const char *where = p->in ? " that arrives" : "";
	bool ack = packet_is_ack(p);

	if (p->cm)
		return (size_t)snprintf(text, len, "CM %s %u%s", p->opcode, p->nth, where);
	if (p->has_rel)
		snprintf(psn, sizeof(psn), " PSN %+d", p->rel);
	if (p->iter > 1 && !ack)
		snprintf(sent, sizeof(sent), ", transmission %u,", p->iter);
	if (p->nth > 1)
		snprintf(times, sizeof(times), " (the %u. time)", p->nth);
	return (size_t)snprintf(text, len, "%s%s%s%s%s of QP %u%s", p->opcode, ack && strcmp(p->word, "ack") ? " " : "",
				ack && strcmp(p->word, "ack") ? p->word : "", psn, sent[0] ? sent : times, p->sender,
				where);
}

void packet_rule(FILE *f, const struct packet *p, const char *act)
{
	fprintf(f, "- match: {packet: %s", p->word);
	if (p->in)
		fputs(", direction: in", f);
	if (!p->cm)
		fprintf(f, ", qp: {sender: %u}", p->sender);
	if (p->has_rel && packet_is_ack(p) && p->nth == 1)
		fprintf(f, ", psn: %+d..", p->rel);
	else if (p->has_rel)
		fprintf(f, ", psn: %+d", p->rel);
	if (p->iter && !packet_is_ack(p))
		fprintf(f, ", iter: %u", p->iter);
	fprintf(f, "}\n  when: {nth: %u}\n  do: %s\n", p->nth, act);
}
