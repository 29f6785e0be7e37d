// <time.h>, <ctime>: device code compares clocks with it.
#pragma once
#ifndef CLOCKS_PER_SEC
#define CLOCKS_PER_SEC 1000000
#endif
