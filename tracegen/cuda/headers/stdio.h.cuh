// <stdio.h>, <cstdio>: the compiler declares printf; host functions in headers name files
#pragma once
typedef struct _IO_FILE FILE;
#ifndef EOF
#define EOF (-1)
#endif
