/* Reports the state of the worker to the service manager: a datagram to $NOTIFY_SOCKET, as sd_notify of systemd sends
 * it (Type=notify). Without that variable nothing happens. Never blocks; a message that cannot be sent is left out.
 * Loop thread, or before the loop runs. */
#ifndef WORKER_SERVICE_NOTIFY_H
#define WORKER_SERVICE_NOTIFY_H

#include <stdint.h>

void service_notify_ready(const char *status); /* started, or done with reloading; one line for people */
void service_notify_reloading(void);           /* the next one is service_notify_ready */
void service_notify_stopping(void);
void service_notify_status(const char *text); /* one line for people */
/* How often the manager expects a sign of life (WatchdogSec=): half of its limit; 0 = never. */
int64_t service_notify_watchdog_ns(void);
void service_notify_alive(void);

#endif
