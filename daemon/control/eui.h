/* SPDX-License-Identifier: MIT */
/* eui.h - the 64 bits that name a device, and end its link-local GID. */
#ifndef DAEMON_EUI_H
#define DAEMON_EUI_H

#include <stdint.h>

#include "../base/conf.h"
#include "../base/device.h"

void eui_from_mac(const uint8_t mac[6], uint8_t eui[8]);
/* For a device that has no interface of its own: locally administered, and the same at each start. */
void eui_made_up(const struct device *, const struct device_conf *, uint8_t eui[8]);

#endif
