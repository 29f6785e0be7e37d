/* The name and the properties of the device. */

#ifndef RDMODEL_RECORDING_PROPERTIES_H
#define RDMODEL_RECORDING_PROPERTIES_H

#include "core.h"

#define device_name rdmodel_device_name
#define device_properties rdmodel_device_properties

EXPORT void device_name(char *name, size_t bytes);
EXPORT void device_properties(void *structure, size_t bytes, int since13);

#endif
