#define RELEASE 1
#include "tests/plugins/release.h"
