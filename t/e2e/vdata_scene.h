/* SPDX-License-Identifier: MIT */
/* vdata_scene.h - what the error cases are told with: a connected QP, a buffer, and what must come of it. */
#ifndef VDATA_SCENE_H
#define VDATA_SCENE_H

#include "vdata.h"

#define BUF_LEN 65536u /* the first half is registered, all of it holds 0x77 */
#define WAIT_MS 20000
#define LATE_MS 500 /* a state, with -k */

#define RW  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define ALL (RW | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct scene {
	const struct vd_node *node;
	int fd;
	struct vd_qp q;
	uint8_t *buf;
	struct ibv_mr *mr;
	struct ibv_pd *pd2; /* another protection domain */
	struct ibv_mr *mr2;
};

struct vd_case {
	const char *name;
	void (*client)(struct scene *), (*server)(struct scene *);
};

extern const struct vd_case vd_cases_remote[], vd_cases_local[], vd_cases_window[]; /* the last has no name */

void scene_open_with(struct scene *s, struct vd_want *want, unsigned mr_access);
void scene_open_usual(struct scene *s);
struct ibv_send_wr scene_request(struct scene *s, enum ibv_wr_opcode code, struct ibv_sge *sge, uint32_t len);
void scene_post(struct scene *s, struct ibv_send_wr *wr);
void scene_recv_post(struct scene *s, uint64_t id, uint32_t len, uint32_t lkey);
void scene_differs(const struct scene *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void scene_expect(struct scene *s, uint64_t id, enum ibv_wc_status status);
void scene_expect_none(struct scene *s, int ms);
void scene_expect_state(struct scene *s, enum ibv_qp_state state);
void scene_expect_event(struct scene *s, enum ibv_event_type type);
void scene_expect_untouched(struct scene *s);
void scene_done(struct scene *s);

/* Connects, waits, closes: for an end that has nothing else to do. */
void scene_bystander(struct scene *);

#endif
