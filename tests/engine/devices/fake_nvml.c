/* NVIDIA's management library, answering from a recording: a text file named by
   DUOTAIL_NVML_RECORDING, read at every start. A line is a key and its value; "!15" is an error.
   "count 2" tells the cards, "0.name ..." is the first one's. What is not recorded is not supported.
   "0.calls 9" makes the first card disappear after so many questions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, TOO_SMALL = 7, GPU_LOST = 15 };

typedef struct { int index, calls; } card;
typedef struct { unsigned long long total, free, used; } memory_info;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_info;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;

static char text[1 << 16];
static card cards[32];
static int started;

static const char *find(const char *key)
{
    static char line[512];
    const size_t length = strlen(key);
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (!strncmp(at, key, length) && at[length] == ' ') {
            snprintf(line, sizeof line, "%.*s", (int)strcspn(at + length + 1, "\n"), at + length + 1);
            return line;
        }
    return NULL;
}

/* The value of a key, or the error it is recorded with. */
static int ask(const char *key, const char **value)
{
    if (!started) return UNINITIALIZED;
    *value = find(key);
    if (!*value) return NOT_SUPPORTED;
    return **value == '!' ? atoi(*value + 1) : OK;
}

static int ask_card(card *of, const char *fact, const char **value)
{
    char key[64];
    const char *calls;
    snprintf(key, sizeof key, "%d.calls", of->index);
    if (!ask(key, &calls) && of->calls++ >= atoi(calls)) return GPU_LOST;
    snprintf(key, sizeof key, "%d.%s", of->index, fact);
    return ask(key, value);
}

static int number_of(card *of, const char *fact, unsigned *number)
{
    const char *value;
    const int code = ask_card(of, fact, &value);
    if (!code) *number = (unsigned)strtoul(value, NULL, 10);
    return code;
}

static int text_of(card *of, const char *fact, char *to, unsigned size)
{
    const char *value;
    const int code = ask_card(of, fact, &value);
    if (!code) snprintf(to, size, "%s", value);
    return code;
}

API int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    const char *path = getenv("DUOTAIL_NVML_RECORDING"), *value;
    FILE *file = path ? fopen(path, "r") : NULL;
    memset(text, 0, sizeof text);
    if (file) {
        if (!fread(text, 1, sizeof text - 1, file)) text[0] = 0;
        fclose(file);
    }
    for (int index = 0; index < 32; index++) cards[index] = (card){index, 0};
    started = 1;
    const int code = ask("init", &value);
    if (code && code != NOT_SUPPORTED) {
        started = 0;
        return code;
    }
    return OK;
}

API int nvmlShutdown(void) { started = 0; return OK; }
API const char *nvmlErrorString(int code) { return code == 77 ? "Out of patience" : "?"; }

API int nvmlSystemGetDriverVersion(char *to, unsigned size)
{
    const char *value;
    const int code = ask("driver", &value);
    if (!code) snprintf(to, size, "%s", value);
    return code;
}

API int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    const char *value;
    const int code = ask("cuda", &value);
    if (!code) *version = atoi(value);
    return code;
}

API int nvmlDeviceGetCount_v2(unsigned *count)
{
    const char *value;
    const int code = ask("count", &value);
    if (!code) *count = (unsigned)atoi(value);
    return code;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, card **of)
{
    char key[32];
    const char *value;
    snprintf(key, sizeof key, "%u.handle", index);
    const int code = ask(key, &value);
    if (code && code != NOT_SUPPORTED) return code;
    *of = &cards[index];
    return OK;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, card **of)
{
    for (unsigned index = 0; index < 32; index++) {
        char key[32];
        const char *value;
        snprintf(key, sizeof key, "%u.bus", index);
        if (ask(key, &value)) continue;
        if (strstr(value, bus)) return nvmlDeviceGetHandleByIndex_v2(index, of);
    }
    return NOT_FOUND;
}

API int nvmlDeviceGetName(card *of, char *to, unsigned size) { return text_of(of, "name", to, size); }
API int nvmlDeviceGetUUID(card *of, char *to, unsigned size) { return text_of(of, "uuid", to, size); }

API int nvmlDeviceGetPciInfo_v3(card *of, pci_info *info)
{
    const char *value;
    const int code = ask_card(of, "bus", &value);
    if (code) return code;
    sscanf(value, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    snprintf(info->bus_id, sizeof info->bus_id, "%s", value);
    return OK;
}

API int nvmlDeviceGetMemoryInfo(card *of, memory_info *info)
{
    const char *value;
    const int code = ask_card(of, "memory", &value);
    if (!code) sscanf(value, "%llu %llu", &info->total, &info->free);
    if (!code) info->used = info->total - info->free;
    return code;
}

API int nvmlDeviceGetUtilizationRates(card *of, utilization *rates)
{
    rates->memory = 0;
    return number_of(of, "busy", &rates->gpu);
}

API int nvmlDeviceGetTemperature(card *of, unsigned sensor, unsigned *degrees)
{
    return sensor ? INVALID : number_of(of, "degrees", degrees);
}

API int nvmlDeviceGetPowerUsage(card *of, unsigned *mw) { return number_of(of, "milliwatts", mw); }

API int nvmlDeviceGetCudaComputeCapability(card *of, int *major, int *minor)
{
    const char *value;
    const int code = ask_card(of, "capability", &value);
    if (!code) sscanf(value, "%d.%d", major, minor);
    return code;
}

API int nvmlDeviceGetCurrPcieLinkGeneration(card *of, unsigned *n) { return number_of(of, "gen", n); }
API int nvmlDeviceGetCurrPcieLinkWidth(card *of, unsigned *n) { return number_of(of, "width", n); }
API int nvmlDeviceGetMaxPcieLinkGeneration(card *of, unsigned *n)
{
    return number_of(of, "max_gen", n);
}
API int nvmlDeviceGetMaxPcieLinkWidth(card *of, unsigned *n) { return number_of(of, "max_width", n); }

/* "0.processes 4242 1000 self 2000": numbers of processes and their bytes; "?" of unknown ones. */
static int list_of(card *of, const char *fact, unsigned *count, process *list)
{
    const char *value;
    char line[512], *rest = line;
    const int code = ask_card(of, fact, &value);
    if (code) return code;
    snprintf(line, sizeof line, "%s", value);
    unsigned found = 0;
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const char *bytes = strtok_r(NULL, " ", &rest);
        if (!bytes) return INVALID;
        const int self = !strcmp(word, "self");
        if (list && found < *count)
            list[found] = (process){self ? (unsigned)getpid() : (unsigned)atoi(word),
                                    *bytes == '?' ? ~0ull : strtoull(bytes, NULL, 10), 0, 0};
        found++;
    }
    const unsigned room = *count;
    *count = found;
    return found && (!list || room < found) ? TOO_SMALL : OK;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(card *of, unsigned *count, process *list)
{
    return list_of(of, "processes", count, list);
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(card *of, unsigned *count, process *list)
{
    return list_of(of, "games", count, list);
}

/* "0.parts 4 5": the card is divided, its parts are recorded as cards 4 and 5. */
API int nvmlDeviceGetMigMode(card *of, unsigned *current, unsigned *pending)
{
    const char *value;
    const int code = ask_card(of, "parts", &value);
    *current = *pending = !code;
    return code;
}

API int nvmlDeviceGetMaxMigDeviceCount(card *of, unsigned *count)
{
    (void)of;
    *count = 7;
    return OK;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(card *of, unsigned index, card **part)
{
    const char *value;
    int numbers[2] = {-1, -1};
    const int code = ask_card(of, "parts", &value);
    if (code) return code;
    sscanf(value, "%d %d", &numbers[0], &numbers[1]);
    if (index > 1 || numbers[index] < 0) return NOT_FOUND;
    *part = &cards[numbers[index]];
    return OK;
}
