/* SPDX-License-Identifier: MIT */
/* scene.h - two queue pairs, and a CQ whose events are waited for. */
#ifndef T_VERBS_SCENE_H
#define T_VERBS_SCENE_H

#include "fixture.h"

/* A CQ with a channel for the receives of b; sends complete on f.cq. */
struct scene {
	struct fix f;
	struct ibv_comp_channel *ch;
	struct ibv_cq *rcq;
	struct ibv_qp *a, *b;
};

void scene_open(struct scene *);
void scene_close(struct scene *);
void send_one(struct scene *, unsigned flags);                   /* its completion says that the receive's is there */
int readable(int fd, int ms);                                    /* within that time */
void event_take(struct ibv_comp_channel *, struct ibv_cq *want); /* the next one, which must come, and be of it */

#endif
