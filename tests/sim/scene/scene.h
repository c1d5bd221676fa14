/* What the parts of a scene share. */
#ifndef SIM_SCENE_H
#define SIM_SCENE_H

#include "tests/sim/world/node.h"

/* The server that listens, or listened, there; NULL = none. */
struct node *scene_node(unsigned port);

#endif
