#define RELEASE 2
#include "tests/plugins/release.h"
