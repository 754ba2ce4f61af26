//go:build cgo && amd64

package backend

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

// These are the parts of Vulkan 1.1 that this file uses, declared here so that the build needs no headers. The layouts are those of vulkan_core.h.

typedef void *handle;
typedef void (*function)(void);

struct application {
	int32_t type; // 0
	const void *next;
	const char *name;
	uint32_t version;
	const char *engine;
	uint32_t engine_version, api;
};

struct instance {
	int32_t type; // 1
	const void *next;
	uint32_t flags;
	const struct application *app;
	uint32_t layers;
	const char *const *layer_names;
	uint32_t extensions;
	const char *const *extension_names;
};

struct properties {
	uint32_t api, driver, vendor, device, kind;
	char rest[1024]; // larger than the rest of the struct
};

struct heap {
	uint64_t size;
	uint32_t flags; // 1: the device's own
};

struct budget {
	int32_t type; // 1000237000
	void *next;
	uint64_t budget[16], usage[16];
};

struct memory {
	int32_t type; // 1000059006
	void *next;
	uint32_t types;
	struct { uint32_t flags, heap; } type_list[32];
	uint32_t heaps;
	struct heap heap[16];
};

typedef struct { int64_t total, free; } space;

// rlx_memory returns the largest device-local heap of the nth device of a vendor and product. It keeps the instance, because making one is slow.
static space rlx_memory(uint32_t vendor, uint32_t product, int nth) {
	static handle made;
	static function (*get)(handle, const char *);
	space none = {0, 0}, found = {0, 0};
	if (!made) {
		void *lib = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
		if (!lib || !(get = (function (*)(handle, const char *))dlsym(lib, "vkGetInstanceProcAddr"))) return none;
		int32_t (*create)(const struct instance *, const void *, handle *) =
			(int32_t (*)(const struct instance *, const void *, handle *))get(0, "vkCreateInstance");
		struct application app = {.type = 0, .name = "rlx", .api = 1u << 22 | 1u << 12};
		struct instance how = {.type = 1, .app = &app};
		if (!create || create(&how, 0, &made) != 0) {
			made = 0;
			return none;
		}
	}
	int32_t (*list)(handle, uint32_t *, handle *) = (int32_t (*)(handle, uint32_t *, handle *))get(made, "vkEnumeratePhysicalDevices");
	void (*describe)(handle, struct properties *) = (void (*)(handle, struct properties *))get(made, "vkGetPhysicalDeviceProperties");
	void (*measure)(handle, struct memory *) = (void (*)(handle, struct memory *))get(made, "vkGetPhysicalDeviceMemoryProperties2");
	handle devices[64];
	uint32_t count = 64;
	if (!list || !describe || !measure || list(made, &count, devices) < 0) return none;
	for (uint32_t i = 0; i < count; i++) {
		struct properties p;
		memset(&p, 0, sizeof p);
		describe(devices[i], &p);
		if (p.vendor != vendor || p.device != product || nth-- > 0) continue;
		struct budget b;
		struct memory m;
		memset(&b, 0, sizeof b);
		memset(&m, 0, sizeof m);
		b.type = 1000237000;
		m.type = 1000059006;
		m.next = &b; // a driver without this extension skips it
		measure(devices[i], &m);
		for (uint32_t k = 0; k < m.heaps && k < 16; k++) {
			if (!(m.heap[k].flags & 1) || (int64_t)m.heap[k].size <= found.total) continue;
			found.total = (int64_t)m.heap[k].size;
			found.free = b.budget[k] > b.usage[k] ? (int64_t)(b.budget[k] - b.usage[k]) : 0;
			if (b.budget[k] == 0) found.free = found.total;
		}
		return found;
	}
	return none;
}
*/
import "C"
import "sync"

var vulkan sync.Mutex

// ownMemory returns the size of a device's own memory and how much of it is free, in bytes, or 0 where the Vulkan
// driver does not report it. WebGPU has no query for either. The device is the nth of those with the same vendor and
// product.
func ownMemory(vendor, product uint32, nth int) (total, free int64) {
	vulkan.Lock()
	defer vulkan.Unlock()
	m := C.rlx_memory(C.uint32_t(vendor), C.uint32_t(product), C.int(nth))
	return int64(m.total), int64(m.free)
}
