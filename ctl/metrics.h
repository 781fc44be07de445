/* SPDX-License-Identifier: MIT */
/* metrics.h - DUMP_STATS as OpenMetrics text, for Prometheus and similar collectors. */
#ifndef CTL_METRICS_H
#define CTL_METRICS_H

#include <stdbool.h>

#include <jansson.h>

/* On stdout.  classic: in the format that was before OpenMetrics. */
void metrics_print(const json_t *stats, bool classic);

#endif
