// This program runs kernels that were compiled with this folder's metal_stdlib. File descriptor 3 is the memory of all
// buffers, and argument 1 its size. With the second argument "flush", the processor takes denormals for 0. The program
// reads commands from standard input, one per line:
//
//	kernel PATH NAME                         loads a kernel from a library; kernels are numbered from 0
//	run KERNEL GX GY COUNT (OFFSET SIZE)...  runs a kernel on a grid of GX x GY threadgroups, with COUNT buffers
//	                                         at these offsets
//	copy TO FROM SIZE
//	clear OFFSET SIZE
//	done                                     prints "ok", or the first error since the last done; commands after an
//	                                         error are skipped
#include "host.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace {

const size_t stack_bytes = 256 << 10;
const uint most_threads = 1024, most_buffers = 31;

char* memory;
size_t memory_size;
char* stacks;
std::vector<const rlx_kernel_entry*> kernels;
char wrong[512]; // the first error since the last done; empty for none

bool fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  if (!wrong[0]) vsnprintf(wrong, sizeof wrong, format, args);
  va_end(args);
  return false;
}

// A fiber runs a thread of a threadgroup until the thread waits or ends. It is used again for the next group. ucontext
// starts a fiber; longjmp, which makes no system call, continues it. A thread waits for all threads of its group, or
// for its simdgroup: the 32 threads whose index has the same quotient by 32.
enum waiting { nothing, for_group, for_simdgroup };
struct fiber {
  ucontext_t context;
  jmp_buf at;
  bool begun, ended;
  waiting waits;
  uint calls;  // of simdgroup functions
};
fiber fibers[most_threads];
jmp_buf scheduler;
uint current; // the fiber that runs
// Arguments of the threads' even and odd calls of simdgroup functions: a thread can be one call ahead of others.
rlx_lane lanes[2][most_threads];
uint3 group, groups;
const rlx_kernel_entry* entry;
rlx_any* buffers;
void* shared;

void yield() {
  if (!_setjmp(fibers[current].at)) _longjmp(scheduler, 1);
}

void fiber_main() {
  for (;;) {
    entry->run(buffers, shared, group, groups, current);
    fibers[current].ended = true;
    yield();
  }
}

__attribute__((noinline)) void resume(uint i) {
  current = i;
  if (_setjmp(scheduler)) return;
  fiber& f = fibers[i];
  if (f.begun) _longjmp(f.at, 1);
  f.begun = true;
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = stacks + i * stack_bytes;
  f.context.uc_stack.ss_size = stack_bytes;
  makecontext(&f.context, fiber_main, 0);
  setcontext(&f.context);
}

// meet continues a simdgroup if all its threads wait at a simdgroup function. It returns false if some do not, or if
// they call different functions.
bool meet(uint first) {
  for (uint i = first; i < first + 32; i++)
    if (fibers[i].waits != for_simdgroup) return false;
  const rlx_lane* of = &lanes[fibers[first].calls % 2][first];
  for (uint i = 0; i < 32; i++) {
    if (strcmp(of[i].function, of->function) || of[i].memory != of->memory || of[i].stride != of->stride ||
        of[i].transposed != of->transposed)
      return fail("the threads of a simdgroup call %s and %s, or with different arguments",
                  of->function, of[i].function);
  }
  for (uint i = first; i < first + 32; i++) fibers[i].waits = nothing;
  return true;
}

// run_group runs the simdgroups one after another, each up to the next barrier, and from there in reverse order, so
// that a missing barrier shows.
bool run_group() {
  uint n = entry->threads;
  for (uint i = 0; i < n; i++) fibers[i].ended = false, fibers[i].waits = nothing, fibers[i].calls = 0;
  for (bool backwards = false;; backwards = !backwards) {
    uint ended = 0, at_barrier = 0;
    for (uint g = 0; g < n; g += 32) {
      uint first = backwards ? (n - 1 - g) / 32 * 32 : g, size = first + 32 <= n ? 32 : n - first;
      do {
        for (uint i = 0; i < size; i++) {
          uint k = first + (backwards ? size - 1 - i : i);
          if (fibers[k].waits == nothing && !fibers[k].ended) resume(k);
        }
      } while (size == 32 && meet(first));
      for (uint k = first; k < first + size; k++) {
        ended += fibers[k].ended;
        at_barrier += !fibers[k].ended && fibers[k].waits == for_group;
      }
    }
    if (ended == n) return true;
    if (at_barrier < n) {
      for (fiber& f : fibers) f.begun = false; // some are still in the middle of this kernel
      return fail(ended > 0 ? "threads of a group wait for others that have ended" : "some threads of a group wait at a barrier, and others for their simdgroup");
    }
    for (uint i = 0; i < n; i++) fibers[i].waits = nothing;
  }
}

bool run() {
  uint number, gx, gy, count, sizes[most_buffers];
  rlx_any bound[most_buffers + 1];
  if (scanf("%u %u %u %u", &number, &gx, &gy, &count) != 4 || number >= kernels.size()) exit(4);
  entry = kernels[number];
  if (count != entry->buffers || count > most_buffers || entry->threads > most_threads) exit(5);
  for (uint i = 0; i < count; i++) {
    size_t offset;
    if (scanf("%zu %u", &offset, &sizes[i]) != 2 || offset > memory_size || sizes[i] > memory_size - offset) exit(6);
    bound[i].p = memory + offset;
  }
  if (wrong[0]) return false;
  bound[count].p = sizes;
  buffers = bound;
  shared = aligned_alloc(64, (entry->shared + 127) / 64 * 64);
  groups = uint3(gx, gy, 1u);
  bool ok = true;
  for (uint y = 0; y < gy && ok; y++)
    for (uint x = 0; x < gx && ok; x++) {
      group = uint3(x, y, 0u);
      memset(shared, 0xff, entry->shared); // not zero, because other work may leave any values there
      if (entry->barrier) {
        ok = run_group();
      } else {
        for (uint i = 0; i < entry->threads; i++) entry->run(buffers, shared, group, groups, i);
      }
    }
  free(shared);
  return ok;
}

bool load() {
  char path[4096], name[128];
  if (scanf("%4095s %127s", path, name) != 2) exit(7);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail("%s", dlerror());
  const void* found = dlsym(library, name);
  if (!found) return fail("%s", dlerror());
  kernels.push_back((const rlx_kernel_entry*)found);
  return true;
}

}  // namespace

void rlx_barrier() {
  fibers[current].waits = for_group;
  yield();
}

const rlx_lane* rlx_simdgroup(const rlx_lane& mine, uint& number) {
  uint call = ++fibers[current].calls % 2;
  lanes[call][current] = mine;
  fibers[current].waits = for_simdgroup;
  yield();
  number = current % 32;
  return &lanes[call][current / 32 * 32];
}

int main(int argc, char** argv) {
  if (argc != 2 && (argc != 3 || strcmp(argv[2], "flush"))) return 2;
  if (argc == 3) {
#ifdef __SSE__
    _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
#else
    return 2;
#endif
  }
  memory_size = strtoull(argv[1], 0, 10);
  memory = (char*)mmap(0, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, 3, 0);
  stacks = (char*)mmap(0, most_threads * stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || stacks == MAP_FAILED) return 3;
  char command[16];
  while (scanf("%15s", command) == 1) {
    size_t to, from, size;
    if (!strcmp(command, "run")) {
      run();
    } else if (!strcmp(command, "copy") && scanf("%zu %zu %zu", &to, &from, &size) == 3 &&
               to + size <= memory_size && from + size <= memory_size) {
      if (!wrong[0]) memmove(memory + to, memory + from, size);
    } else if (!strcmp(command, "clear") && scanf("%zu %zu", &to, &size) == 2 && to + size <= memory_size) {
      if (!wrong[0]) memset(memory + to, 0, size);
    } else if (!strcmp(command, "kernel")) {
      load();
    } else if (!strcmp(command, "done")) {
      puts(wrong[0] ? wrong : "ok");
      fflush(stdout);
      wrong[0] = 0;
    } else {
      return 8;
    }
  }
  return 0;
}
