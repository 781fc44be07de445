/* SPDX-License-Identifier: MIT */
/*
 * rule.h - rules that decide what happens to packets; man 5 rdmad-fault tells what they mean.
 *
 *	text (YAML) --rules_add()--> rules --rules_decide(packet)--> verdict: what the host is to do with the packet
 *	                                    --rules_event()--------> what is to happen to a port, a device, a QP
 *
 * Nothing here knows a clock or a socket.  Dice are thrown anew for each packet, from the seed, the rule and the
 * identity of the packet - which QP of its device, direction, PSN behind the first one, which transmission - and
 * nothing else: what one QP sends does not change the luck of another, and the same packets meet the same fate whatever
 * comes between them.
 */
#ifndef LAB_RULE_H
#define LAB_RULE_H

#include "flow.h"
#include "tap.h"

#define RULE_NAME    48u
#define RULE_ACTS    4u
#define RULE_DEVICES 32u
#define RULE_REDO    320u /* of rule_redo(): RULE_ACTS of the longest, and a delay */
#define RULE_TEXT    200u /* of a comment */
#define RULES_MAX    256u
#define RULES_LOG    4096u /* decisions that are remembered */
#define RULES_KEPT   512u  /* and of older ones the last of each queue pair, about */

enum rule_act_kind {
#define ACT(name, about, value, without, word) ACT_##name,
#include "act.def"
#undef ACT
	ACTS
};

/* The object that an action is about. */
enum rule_about { ABOUT_PACKET, ABOUT_DEVICE, ABOUT_QP };

enum rule_where { WHERE_PAYLOAD, WHERE_HEADER, WHERE_ICRC, WHERE_ANY };

struct rule_act {
	enum rule_act_kind kind;
	uint64_t ns,
		jitter_ns; /* DELAY; BLACKHOLE, HOLD, PORT_DOWN, WEDGE, UNPLUG: how long, 0: for ever; DUPLICATE, REORDER: when at the latest */
	uint64_t up_ns;       /* FLAP: up so long, and down for ns */
	uint64_t rate, queue; /* RATE: bits a second; bytes that wait at most, 0: no bound */
	uint32_t n; /* DUPLICATE, REORDER, SWALLOW_ACK, FLAP: how many; CORRUPT: bits; RNR: timer code; NAK: code */
	enum rule_where where; /* CORRUPT */
	int32_t byte;          /* CORRUPT: this one, xor'ed with n; -1: any */
	bool fix;              /* CORRUPT: the ICRC is made to fit */
};

struct rule_range {
	int64_t from, to;
};

struct rule {
	unsigned id;   /* 1, 2, ... in the order of coming; never twice */
	unsigned line; /* of its text */
	char name[RULE_NAME];
	uint64_t owner; /* of rules_add() */
	uint64_t seed;
	mono_t added;
	uint32_t qp_base[RULE_DEVICES]; /* QPs that the devices had made by then */
	uint32_t sender_base;           /* QPs that had sent by then */

	/* The packets that match. */
	char device[64];                  /* empty: any */
	char prog[64];                    /* empty: any */
	uint32_t qpn;                     /* 0: any */
	struct rule_range nth_qp, sender; /* to < from: any */
	struct rule_range psn, rel, iter;
	unsigned dirs;      /* bit per enum tap_dir */
	unsigned paths;     /* 1 wire, 2 local */
	uint32_t ops;       /* bit per operation; all: not said */
	unsigned services;  /* bit per service (opcode >> 5) */
	unsigned syndromes; /* of acknowledgements: 1 ACK, 2 NAK, 4 RNR NAK */
	uint32_t cm;        /* those of QP 1: a bit per message of the CM, see rule_cm_bit() */
	bool cnp;

	/* Those of them that it acts on. */
	struct rule_range nth; /* 1 is the first */
	uint64_t every;        /* 0: each */
	uint64_t share;        /* of 2^53; 2^53: all */
	struct rule_range ns;  /* since it was added */
	uint64_t times;        /* at most; 0: any number */
	bool each_qp;          /* nth and every count for each QP */

	bool timed; /* no packets, but a moment: at */
	uint64_t at_ns;
	bool done;

	struct rule_act act[RULE_ACTS];
	unsigned act_n;

	uint64_t seen, hits; /* packets that match; that it acted on */
	mono_t black_until;
	mono_t busy_until; /* RATE: when the last byte has left */
};

/* Events other than packets that a rule makes. */
struct rule_event {
	enum rule_act_kind kind; /* not one ABOUT_PACKET */
	unsigned rule;
	uint32_t devices; /* bit per index; with a QP, one bit */
	uint32_t qpn;     /* QP_FATAL, CQ_OVERRUN: of this one; 0: of all that match rule's QP */
};

enum rule_answer { ANSWER_NONE, ANSWER_RNR, ANSWER_NAK, ANSWER_ACK };

struct rule_damage {
	const struct rule_act *act; /* a CORRUPT */
	uint64_t dice;
};

struct rule_verdict {
	bool drop;
	bool wedged;     /* so is its device: no clock of it goes on, even if the event has not come yet */
	unsigned copies; /* of it, besides, each copy_ns later */
	uint64_t copy_ns;
	uint64_t delay_ns; /* it goes on so much later */
	unsigned behind;   /* or once so many others of its stream have: whichever comes first */
	bool ecn;
	struct rule_damage damage[RULE_ACTS]; /* one after the other */
	unsigned damage_n;
	const struct rule_act *corrupt; /* the last of them, which says whether the ICRC fits; NULL: none */
	enum rule_answer answer;        /* for its sender; the packet itself is dropped */
	uint8_t syndrome;
	char text[RULE_TEXT]; /* what rules did: empty: nothing */
};

/* One line of the list of decisions. */
struct rule_note {
	uint64_t n; /* 1, 2, ... */
	mono_t at;
	unsigned rule, device;
	char name[RULE_NAME]; /* the rule's, which may be gone */
	enum tap_dir dir;
	bool local, known, has_rel;
	uint8_t opcode;
	enum tap_kind kind;
	uint32_t acts;           /* bit per enum rule_act_kind: what its rule does */
	uint64_t late_ns;        /* and what it did: so much later, */
	bool lost;               /* or never */
	uint32_t nak;            /* NAK: its code */
	bool fix;                /* CORRUPT: with an ICRC that fits */
	uint32_t nth, qpn, dqpn; /* nth: since the rule was added; qpn of an event: 0 if the rule names none */
	uint32_t sender;         /* since the rule was added; 0: none */
	uint16_t cm;             /* as tap_pkt has it */
	uint8_t syndrome;        /* of an acknowledgement */
	psn_t psn;
	int32_t rel;
	unsigned iter;
	uint16_t payload_len;
	bool event; /* no packet: text only */
	char text[96];
	char redo[RULE_REDO]; /* of rule_redo() */
};

/* A rule can make this of a device for a while: its port is down, it does nothing at all, it is not there. */
enum rule_state { STATE_DOWN, STATE_WEDGED, STATE_UNPLUGGED, RULE_STATES };

#define RULE_OVER ((mono_t){ 1 }) /* of rules.until: since long, but the host does not know yet */

/* A port that goes down and up. */
struct rule_flap {
	uint32_t left; /* so often again */
	unsigned rule;
	uint64_t down_ns, up_ns;
	mono_t at; /* it is up until then */
};

/* Packets that were dropped while a rule had the device in such a state: they are not in the list of decisions. */
struct rule_cut {
	unsigned rule;
	enum rule_state state;
	uint64_t n; /* since it began */
	mono_t last;
};

struct rules {
	struct rule *v[RULES_MAX];
	unsigned n;
	unsigned last_id;
	uint32_t senders;                 /* QPs that have sent since there were rules */
	const char *device[RULE_DEVICES]; /* names, by the host */
	unsigned device_n;
	mono_t until[RULE_STATES][RULE_DEVICES]; /* zero: it is not so */
	mono_t since[RULE_STATES][RULE_DEVICES];
	unsigned by[RULE_STATES][RULE_DEVICES]; /* the rule that made it so */
	struct rule_flap flap[RULE_DEVICES];
	struct rule_cut cut[RULE_DEVICES];
	struct rule_event event[32];
	unsigned event_n;
	struct rule_note *note; /* ring of RULES_LOG */
	struct rule_note *kept; /* RULES_KEPT: of those that fell out of the ring */
	uint64_t note_n;        /* since the beginning */
};

void rules_fini(struct rules *); /* it may be used again */

/* An error in a text. */
struct rule_error {
	unsigned line; /* 0: nowhere in particular */
	char text[240];
};

/* The terms under which rules are added. */
struct rule_host {
	uint64_t owner;       /* rules_clear() takes all of one */
	const uint64_t *seed; /* instead of the text's own; NULL */
	mono_t now;
	const uint32_t *qp_base; /* RULE_DEVICES of them; NULL: zeros */
};

#define RULES_TEXT_MOST (1u << 20) /* bytes of a text */
/* Adds all rules of a text, or none: how many there are, or -1 and *err. */
int rules_add(struct rules *, const char *text, size_t len, const struct rule_host *, struct rule_error *err);
/* The rule of this id (0: all) of that owner (0: of any owner); how many were removed. */
unsigned rules_clear(struct rules *, unsigned id, uint64_t owner);

/* The packet is noted (flow_note()), f is what that gave.  *v is what is to be done with it. */
void rules_decide(struct rules *, struct flow *f, struct tap_pkt *, struct rule_verdict *v);

/* Events that are due; false: none (any more). */
bool rules_event(struct rules *, struct rule_event *, mono_t now);
mono_t rules_deadline(const struct rules *);

/* Does the QP belong to those that the rule of the event is about? */
bool rule_about_qp(const struct rules *, const struct rule_event *, unsigned device, uint32_t qpn,
		   const struct tap_qp *);

/*
 * Marks and damages a packet that goes on, of len bytes, ICRC included; it may not be a valid one any more.  false: it is whole,
 * and the bytes were not looked at.  sport: its source port, for a new ICRC.
 */
bool rule_change(const struct rule_verdict *, struct route *, uint16_t sport, uint8_t *pkt, size_t len);

/*
 * The packet that answers p, as if its receiver had sent it: the bytes with ICRC to pkt (TAP_PKT_MAX), its route to
 * *back; how many.  to: the QP that p came from.
 */
size_t rule_answer(const struct rule_verdict *, const struct tap_pkt *p, uint32_t to, struct route *back, uint8_t *pkt);

/* Text for people. */
const char *rule_act_word(enum rule_act_kind);
enum rule_about rule_act_about(enum rule_act_kind);
void rule_about(const struct rule *, char *text, size_t len); /* "drop", "delay 5 ms, then ecn" */
/* The note n (1 is the first ever) as a line; what differs between two runs of the same packets is left out.  false: forgotten. */
bool rules_note(const struct rules *, uint64_t n, char *text, size_t len);
/* The packet came so much later by the rule, or never. */
struct rule_did {
	uint64_t late_ns;
	bool lost;
	bool now;                /* by what the rule does to this packet, and not by what it did to an earlier one */
	enum rule_answer answer; /* lost: this was the reason */
};
/* A deed that makes the same happen to one packet again, as files of rules have it; empty: nothing happened. */
void rule_redo(const struct rule *, const struct rule_did *, char *text, size_t len);
void rules_log(struct rules *, const struct rule *, const struct tap_pkt *, mono_t now, struct rule_did,
	       const char *text);

/* The note n itself; NULL: forgotten. */
const struct rule_note *rules_note_get(const struct rules *, uint64_t n);

/* A failure that rules may have brought about: which packets they must have touched for that. */
struct rule_suspect {
	mono_t since;
	int device, peer;   /* of the QP, and of the one that it is connected to; -1: not one of ours */
	uint32_t qpn, dqpn; /* qpn 0: no QP, but the connection manager of that device */
	bool datagrams;     /* no PSN is known: those that were for the QP, whoever of this host sent them */
	bool responder;  /* what failed is a request that came; else one that the QP sent, and its answers count, too */
	psn_t psn, last; /* the requests from psn to last */
	uint32_t acts;   /* not 0: no packets, but what rules with one of these acts (a bit each) did to the QP */
	/* A deed counts only if it can bring the failure about. */
	uint32_t able;    /* the acts that can, a bit each */
	uint64_t late_ns; /* DELAY, HOLD, RATE: from so much on, */
	mono_t missed;    /* or if it had not come by then; 0: late_ns counts */
	uint32_t nak;     /* NAK: of this code */
	bool fix;         /* CORRUPT: if the ICRC fits; the packet is merely lost otherwise */
};
/*
 * Says for each rule that touched them what it did and how often, in one sentence each: text is empty if none did.  How
 * many decisions of those that can bring the failure about.
 */
/* From when on all decisions are remembered. */
mono_t rules_since(const struct rules *);
unsigned rules_blame(const struct rules *, const struct rule_suspect *, char *text, size_t len);

/* ---- of the files rule*.c ---- */
#define RULE_CM_OTHER 31u /* the bit of what is no message of the CM */
uint32_t rule_cm_bit(uint16_t attr);
int rule_parse(const char *text, size_t len, struct rule **out, unsigned max, uint64_t *seed, struct rule_error *);
const struct rule *rule_get(const struct rules *, unsigned id); /* NULL: gone */
bool rule_qp_matches(const struct rule *, unsigned device, uint32_t qpn, const struct tap_qp *);
/* Something that is not done to a packet happens; device: RULE_DEVICES: to those that the rule names. */
void rule_event_put(struct rules *, const struct rule *, const struct rule_act *, unsigned device, uint32_t qpn,
		    mono_t now);
/* The packet meets a device in a state that lets none pass. */
bool rule_lost(struct rules *, const struct tap_pkt *, struct rule_verdict *);

#endif
