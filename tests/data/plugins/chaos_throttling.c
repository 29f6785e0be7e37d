#define CHAOS_THROTTLES
#include "chaos.c"
