/* A stand-in for libnvidia-ml.so.1 on a machine without GPUs. It has the calls that rayctl makes, as the NVML API Reference (vR550, "Initialization and Cleanup",
   "Device Queries") describes them: GPUs by index, names by UUID, utilization in percent, and NVML_ERROR_NOT_SUPPORTED (3) for GPUs that are divided.
   RECORDING is a file with the percents, a word each; a word that is no number is such a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rates { unsigned int gpu, memory; };
static char words[8][16];

static unsigned int read_words(void) {
  unsigned int n = 0;
  FILE *f = fopen(RECORDING, "r");
  while (f && n < 8 && fscanf(f, "%15s", words[n]) == 1) n++;
  if (f) fclose(f);
  return n;
}

int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = read_words(); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) { *device = words[index]; return 0; }
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) {
  snprintf(uuid, length, "GPU-%d", (int)(((char *)device - words[0]) / sizeof words[0]));
  return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates) {
  char *end;
  rates->gpu = strtoul(device, &end, 10);
  return *end ? 3 : 0;
}
