/* A stand-in for libnvidia-ml.so.1 on a machine without GPUs. It has the calls that rayctl makes, as the NVML API Reference (vR550, "Initialization and Cleanup",
   "Device Queries") describes them: GPUs by index, names by UUID, utilization in percent, and NVML_ERROR_NOT_SUPPORTED (3) for GPUs that are divided.
   RECORDING is a file of lines, the percents of one moment each, a word for each GPU; a word that is no number is such a GPU. A line that begins with @SECONDS holds from
   so many seconds after the file was written, one without from the beginning. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct rates { unsigned int gpu, memory; };
static char words[8][16];

static unsigned int read_words(void) {
  unsigned int n = 0;
  char line[256], *word, *rest;
  struct stat written;
  struct timespec now;
  FILE *f = fopen(RECORDING, "r");
  if (!f) return 0;
  fstat(fileno(f), &written);
  clock_gettime(CLOCK_REALTIME, &now);
  double since = now.tv_sec - written.st_mtim.tv_sec + (now.tv_nsec - written.st_mtim.tv_nsec) / 1e9;
  while (fgets(line, sizeof line, f)) {
    word = strtok_r(line, " \n", &rest);
    if (word && *word == '@') {
      if (strtod(word + 1, NULL) > since) break;
      word = strtok_r(NULL, " \n", &rest);
    }
    for (n = 0; word && n < 8; word = strtok_r(NULL, " \n", &rest)) snprintf(words[n++], sizeof words[0], "%s", word);
  }
  fclose(f);
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
