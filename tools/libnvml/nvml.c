/* A libnvidia-ml.so.1 that answers from a table: the text file that $NVML_TABLE names, read again whenever it changes.

   A line is `SYMBOL [GPU] [ARGUMENT...] = REPLY`, all arguments in decimal; of equal questions the last counts, so that
   a line appended to a running machine's table breaks or mends it. `#` begins a comment. REPLY is an nvmlReturn_t, after
   0 the values in the order of the struct (text as it stands, byte strings in hexadecimal), or

     hang       never return
     abort      end the process by SIGABRT
     garbage    succeed, with all that the caller gave to be filled set to 0xff

   A question that is not in the table answers NVML_ERROR_FUNCTION_NOT_FOUND. A GPU whose nvmlDeviceGetHandleByIndex_v2
   fails is lost to every call with that error. Without a table the driver is not loaded; when its
   nvmlSystemGetDriverVersion changes, a running process gets NVML_ERROR_LIB_RM_VERSION_MISMATCH for the rest of its life,
   as from a driver that was upgraded. `nvmlEventSetWait_v2 = 0 GPU TYPE DATA` is an event, delivered once per change of
   the table.

   Structs, sizes and versions are those of nvml.h; nothing of it is copied, so that the binding is held to a second
   description of them. One thread only. */

#define _POSIX_C_SOURCE 200809L
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, FUNCTION_NOT_FOUND = 13, LIB_RM_VERSION_MISMATCH = 18,
    ARGUMENT_VERSION_MISMATCH = 25,
};
enum { GPUS = 64, CLIQUES = 64 };

typedef unsigned nvmlReturn_t;
typedef struct device { char unused; } *nvmlDevice_t;

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
SIZE(nvmlPciInfo_t, 68);

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType;
    nvmlReturn_t nvmlReturn;
    union { double d; unsigned long long ull; unsigned ui; } value;
} nvmlFieldValue_t;
SIZE(nvmlFieldValue_t, 40);

typedef struct {
    unsigned char clusterUuid[16];
    unsigned status, cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;
SIZE(nvmlGpuFabricInfo_t, 28);

typedef struct {
    unsigned version;
    nvmlGpuFabricInfo_t member;
    unsigned healthMask;
    unsigned char healthSummary; /* not in version 2 */
} nvmlGpuFabricInfo_v3_t;
SIZE(nvmlGpuFabricInfo_v3_t, 40);

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    struct { unsigned char type; unsigned id; } cliques[CLIQUES];
    unsigned numCliques;
    unsigned char state;
    unsigned healthMask;
    unsigned char healthSummary;
} nvmlGpuFabricInfo_v4_t;
SIZE(nvmlGpuFabricInfo_v4_t, 548);

typedef struct {
    unsigned version;
    unsigned char ibGuid[16], chassisSerialNumber[16], slotNumber, trayIndex, hostId, peerType, moduleId;
} nvmlPlatformInfo_t;
SIZE(nvmlPlatformInfo_t, 0x2c);

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;
SIZE(nvmlEventData_t, 32);

typedef struct events { unsigned long long types[GPUS]; } *nvmlEventSet_t;

enum { FABRIC_V2 = 0x2000024, FABRIC_V3 = 0x3000028, PLATFORM_V1 = 0x100002c, PLATFORM_V2 = 0x200002c };

/* The table */

struct line { const char *question, *reply; };

static struct {
    char *text;
    struct line *lines;
    size_t count;
    struct stat seen;
    unsigned changes;
} table;

static bool same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_size == b->st_size && !memcmp(&a->st_mtim, &b->st_mtim, sizeof a->st_mtim);
}

/* By question, then as in the file, where of equal ones the last counts. */
static int order(const void *a, const void *b) {
    const struct line *first = a, *second = b;
    int by_question = strcmp(first->question, second->question);
    return by_question ? by_question : first->question < second->question ? -1 : 1;
}

/* A line that is still being written has no end yet, and is left for the next time. */
static void parse(char *text) {
    free(table.text);
    table.text = text;
    table.count = 0;
    table.changes++;
    for (char *end; (end = strchr(text, '\n')); text = end + 1) {
        *end = '\0';
        char *equals = strstr(text, " = ");
        if (*text == '#' || !*text)
            continue;
        if (!equals) {
            fprintf(stderr, "NVML_TABLE: write `QUESTION = REPLY`: %s\n", text);
            continue;
        }
        *equals = '\0';
        table.lines = realloc(table.lines, (table.count + 1) * sizeof *table.lines);
        table.lines[table.count++] = (struct line){text, equals + 3};
    }
    qsort(table.lines, table.count, sizeof *table.lines, order);
}

/* Whether there is a table; it is up to date then. */
static bool load(void) {
    const char *path = getenv("NVML_TABLE");
    struct stat now;
    if (!path || stat(path, &now))
        return false;
    if (table.text && same(&now, &table.seen))
        return true;
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    char *text = malloc(now.st_size + 1);
    text[fread(text, 1, now.st_size, file)] = '\0';
    fclose(file);
    table.seen = now;
    parse(text);
    return true;
}

static const char *find(const char *question) {
    size_t from = 0, to = table.count; /* of all lines up to this question's, the last is wanted: it is before `to` */
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (strcmp(table.lines[middle].question, question) <= 0)
            from = middle + 1;
        else
            to = middle;
    }
    return to && !strcmp(table.lines[to - 1].question, question) ? table.lines[to - 1].reply : NULL;
}

/* `values` is what follows the code; NULL with SUCCESS: fill the memory with garbage. */
struct reply { nvmlReturn_t code; const char *values; };

static struct device gpus[GPUS], mig;
static unsigned users;
static char driver[96]; /* at the time of nvmlInit */

static struct reply look_up(const char *question) {
    const char *text = find(question);
    if (!text)
        return (struct reply){FUNCTION_NOT_FOUND, ""};
    if (!strcmp(text, "hang"))
        for (;;)
            pause();
    if (!strcmp(text, "abort"))
        abort();
    if (!strcmp(text, "garbage"))
        return (struct reply){SUCCESS, NULL};
    char *values;
    nvmlReturn_t code = strtoul(text, &values, 10);
    return (struct reply){code, values + (*values == ' ')};
}

static const char *driver_now(void) {
    const char *reply = find("nvmlSystemGetDriverVersion");
    return reply ? reply : "";
}

static nvmlReturn_t usable(void) {
    if (!users)
        return UNINITIALIZED;
    if (!load())
        return DRIVER_NOT_LOADED;
    return strncmp(driver, driver_now(), sizeof driver - 1) ? LIB_RM_VERSION_MISMATCH : SUCCESS;
}

static unsigned number_of(nvmlDevice_t gpu) { return gpu - gpus; }

static nvmlReturn_t handle_of(unsigned gpu) {
    char question[64];
    snprintf(question, sizeof question, "nvmlDeviceGetHandleByIndex_v2 %u", gpu);
    nvmlReturn_t code = look_up(question).code;
    return code == FUNCTION_NOT_FOUND ? INVALID_ARGUMENT : code;
}

static nvmlReturn_t reach(nvmlDevice_t device) {
    nvmlReturn_t code = usable();
    if (code)
        return code;
    if (device == &mig)
        return NOT_SUPPORTED; /* links, fabric and place are their parent's */
    return device < gpus || device >= gpus + GPUS ? INVALID_ARGUMENT : handle_of(number_of(device));
}

/* `count` more arguments, all unsigned, name the question. */
static struct reply ask(const char *symbol, nvmlDevice_t device, int count, ...) {
    nvmlReturn_t code = reach(device);
    if (code)
        return (struct reply){code, ""};
    char question[128];
    int length = snprintf(question, sizeof question, "%s %u", symbol, number_of(device));
    va_list arguments;
    va_start(arguments, count);
    while (count--)
        length += snprintf(question + length, sizeof question - length, " %u", va_arg(arguments, unsigned));
    va_end(arguments);
    return look_up(question);
}

static struct reply ask_system(const char *symbol) {
    nvmlReturn_t code = usable();
    return code ? (struct reply){code, ""} : look_up(symbol);
}

static unsigned next(const char **values) {
    char *end;
    unsigned long long value = strtoull(*values, &end, 10);
    *values = end;
    return (unsigned)value;
}

static void next_bytes(const char **values, unsigned char *bytes, size_t count) {
    *values += strspn(*values, " ");
    for (; count-- && sscanf(*values, "%2hhx", bytes) == 1; bytes++)
        *values += 2;
}

static nvmlReturn_t number(struct reply reply, unsigned *value) {
    if (reply.code == SUCCESS)
        *value = reply.values ? next(&reply.values) : ~0u;
    return reply.code;
}

static nvmlReturn_t text(struct reply reply, char *value, unsigned size) {
    if (reply.code)
        return reply.code;
    if (!reply.values)
        memset(value, 0xff, size);
    else if (strlen(reply.values) >= size)
        return INSUFFICIENT_SIZE;
    else
        strcpy(value, reply.values);
    return SUCCESS;
}

/* Whether a struct is to be filled from the reply: garbage is already in it, and an error leaves it as it was. */
static bool fills(struct reply reply, void *memory, size_t size) {
    if (reply.code == SUCCESS && !reply.values)
        memset(memory, 0xff, size);
    return reply.code == SUCCESS && reply.values;
}

/* The library */

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!load())
        return DRIVER_NOT_LOADED;
    struct reply reply = look_up(__func__);
    if (reply.code == SUCCESS && !users++)
        snprintf(driver, sizeof driver, "%s", driver_now());
    return reply.code;
}

EXPORT nvmlReturn_t nvmlShutdown(void) { return users ? users--, SUCCESS : UNINITIALIZED; }

/* Asked only about codes that the binding has no words for. */
EXPORT const char *nvmlErrorString(nvmlReturn_t code) {
    static char words[32];
    snprintf(words, sizeof words, "Error %u", code);
    return words;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned size) {
    return text(ask_system(__func__), version, size);
}

/* Devices */

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) { return number(ask_system(__func__), count); }

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    nvmlReturn_t code = usable();
    if (!code)
        code = index < GPUS ? handle_of(index) : INVALID_ARGUMENT;
    if (!code)
        *device = &gpus[index];
    return code;
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    nvmlReturn_t code = reach(device);
    if (!code)
        *index = number_of(device);
    return code;
}

static nvmlReturn_t pci_info(struct reply reply, nvmlPciInfo_t *pci) {
    if (fills(reply, pci, sizeof *pci)) {
        memset(pci, 0, sizeof *pci);
        pci->pciDeviceId = next(&reply.values);
        snprintf(pci->busId, sizeof pci->busId, "%s", reply.values + strspn(reply.values, " "));
        sscanf(pci->busId, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
        snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
                 pci->device & 0xff);
    }
    return reply.code;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    return pci_info(ask(__func__, device, 0), pci);
}

#define TEXT(symbol) \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, char *value, unsigned size) { \
        return text(ask(__func__, device, 0), value, size); \
    }
TEXT(nvmlDeviceGetUUID)
TEXT(nvmlDeviceGetName)

#define NUMBER(symbol) \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned *value) { return number(ask(__func__, device, 0), value); }
NUMBER(nvmlDeviceGetArchitecture)
NUMBER(nvmlDeviceGetModuleId)
NUMBER(nvmlDeviceGetNumaNodeId)
NUMBER(nvmlDeviceGetMaxMigDeviceCount)

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    struct reply reply = ask(__func__, device, 0);
    if (reply.code == SUCCESS) {
        *current = reply.values ? next(&reply.values) : ~0u;
        *pending = reply.values ? next(&reply.values) : ~0u;
    }
    return reply.code;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *handle) {
    struct reply reply = ask(__func__, device, 1, index);
    if (reply.code == SUCCESS)
        *handle = &mig;
    return reply.code;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, unsigned *level) {
    nvmlReturn_t code = reach(b);
    return code ? code : number(ask(__func__, a, 1, number_of(b)), level);
}

/* NVLinks */

#define LINK(symbol) \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned link, unsigned *value) { \
        return number(ask(__func__, device, 1, link), value); \
    }
LINK(nvmlDeviceGetNvLinkState)
LINK(nvmlDeviceGetNvLinkVersion)
LINK(nvmlDeviceGetNvLinkRemoteDeviceType)

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci) {
    return pci_info(ask(__func__, device, 1, link), pci);
}

/* Succeeds as a whole, by a line without field and scope; each field has a code of its own. */
EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields) {
    struct reply whole = ask(__func__, device, 0);
    for (int i = 0; i < count && fills(whole, fields, count * sizeof *fields); i++) {
        struct reply reply = ask(__func__, device, 2, fields[i].fieldId, fields[i].scopeId);
        fields[i].nvmlReturn = reply.code == FUNCTION_NOT_FOUND ? INVALID_ARGUMENT : reply.code;
        fields[i].value.ull = 0;
        if (fills(reply, &fields[i].value, sizeof fields[i].value)) {
            fields[i].valueType = next(&reply.values);
            fields[i].value.ull = strtoull(reply.values, NULL, 10);
        }
    }
    return whole.code;
}

/* Fabric and platform */

/* The state is one byte; the three behind it, padding that the binding reads too, may be anything. */
static void membership(const char **values, nvmlGpuFabricInfo_t *info) {
    memset(info, 0xff, sizeof *info);
    next_bytes(values, info->clusterUuid, sizeof info->clusterUuid);
    info->status = next(values);
    info->cliqueId = next(values);
    info->state = next(values);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info) {
    struct reply reply = ask(__func__, device, 0);
    if (fills(reply, info, sizeof *info))
        membership(&reply.values, info);
    return reply.code;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info) {
    unsigned version = info->version;
    if (version != FABRIC_V2 && version != FABRIC_V3)
        return ARGUMENT_VERSION_MISMATCH;
    struct reply reply = ask(__func__, device, 1, version);
    if (fills(reply, info, version & 0xffffff)) {
        membership(&reply.values, &info->member);
        info->healthMask = next(&reply.values);
        if (version == FABRIC_V3)
            info->healthSummary = next(&reply.values);
    }
    return reply.code;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo_v4(nvmlDevice_t device, nvmlGpuFabricInfo_v4_t *info) {
    struct reply reply = ask(__func__, device, 0);
    if (fills(reply, info, sizeof *info)) {
        next_bytes(&reply.values, info->clusterUuid, sizeof info->clusterUuid);
        info->status = next(&reply.values);
        info->numCliques = next(&reply.values);
        info->state = next(&reply.values);
        info->healthMask = next(&reply.values);
        info->healthSummary = next(&reply.values);
        for (unsigned i = 0; i < info->numCliques && i < CLIQUES; i++) {
            info->cliques[i].type = next(&reply.values);
            info->cliques[i].id = next(&reply.values);
        }
    }
    return reply.code;
}

EXPORT nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *info) {
    if (info->version != PLATFORM_V1 && info->version != PLATFORM_V2)
        return ARGUMENT_VERSION_MISMATCH;
    struct reply reply = ask(__func__, device, 1, info->version);
    if (fills(reply, info, sizeof *info)) {
        next_bytes(&reply.values, info->ibGuid, sizeof info->ibGuid);
        next_bytes(&reply.values, info->chassisSerialNumber, sizeof info->chassisSerialNumber);
        info->slotNumber = next(&reply.values);
        info->trayIndex = next(&reply.values);
        info->hostId = next(&reply.values);
        info->peerType = next(&reply.values);
        info->moduleId = next(&reply.values);
    }
    return reply.code;
}

/* Events */

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    nvmlReturn_t code = usable();
    if (!code)
        *set = calloc(1, sizeof **set);
    return code;
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    free(set);
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    unsigned known;
    nvmlReturn_t code = number(ask(__func__, device, 0), &known);
    if (!code)
        *types = known;
    return code;
}

/* One type that is not supported refuses them all. */
EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    unsigned long long known;
    nvmlReturn_t code = nvmlDeviceGetSupportedEventTypes(device, &known);
    if (!code && types & ~known)
        code = NOT_SUPPORTED;
    if (!code)
        set->types[number_of(device)] |= types;
    return code;
}

static nvmlReturn_t happened(nvmlEventSet_t set, nvmlEventData_t *data) {
    static unsigned delivered;
    nvmlReturn_t code = usable();
    for (unsigned gpu = 0; !code && gpu < GPUS; gpu++)
        if (set->types[gpu])
            code = handle_of(gpu);
    if (code)
        return code;
    struct reply reply = look_up("nvmlEventSetWait_v2");
    if (reply.code == FUNCTION_NOT_FOUND || (reply.code == SUCCESS && delivered == table.changes))
        return TIMEOUT;
    delivered = table.changes;
    if (fills(reply, data, sizeof *data)) {
        unsigned gpu = next(&reply.values);
        *data = (nvmlEventData_t){&gpus[gpu % GPUS], next(&reply.values), 0, ~0u, ~0u};
        data->eventData = next(&reply.values);
        return set->types[gpu % GPUS] & data->eventType ? SUCCESS : TIMEOUT;
    }
    return reply.code;
}

/* Sleeps until the table's folder changes, as the driver sleeps until a GPU has something to say. */
EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms) {
    char path[PATH_MAX], changes[4096];
    snprintf(path, sizeof path, "%s", getenv("NVML_TABLE"));
    struct pollfd change = {inotify_init1(IN_CLOEXEC), POLLIN, 0};
    inotify_add_watch(change.fd, dirname(path), IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE);
    nvmlReturn_t code;
    while ((code = happened(set, data)) == TIMEOUT && poll(&change, 1, (int)timeout_ms) > 0)
        if (read(change.fd, changes, sizeof changes) < 0)
            break;
    close(change.fd);
    return code;
}
