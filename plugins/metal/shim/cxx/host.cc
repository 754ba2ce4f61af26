// Runs kernels that are compiled with metal_stdlib of this folder. It reads commands from standard input, one a line:
//
//	KERNEL GX GY OFFSET SIZE ...
//
// runs kernel number KERNEL of the table kernels on a grid of GX x GY threadgroups, with its buffers at these offsets into the file that
// argument 1 names, of these sizes in bytes, and argument 2 gives the size of. The answer is a line: "ok", or what is wrong. The first line is "ready".
#include "host.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

namespace {

const size_t stack_bytes = 256 << 10;
const uint most_threads = 1024, most_buffers = 31;

// A fiber is a thread of a group, which runs until it waits or ends.
struct fiber {
  ucontext_t context;
  bool ended;
};
fiber fibers[most_threads];
ucontext_t scheduler;
uint current;       // the fiber that runs
uint3 group, groups;
const rlx_kernel_entry* entry;
rlx_any* buffers;
void* shared;

void fiber_main() {
  entry->run(buffers, shared, group, groups, current);
  fibers[current].ended = true;
}

// run_group runs the threads in turns: all of them up to the next barrier, then all again, from the other end, so that a kernel that lacks a
// barrier is found out. False means that some waited for others that had ended.
bool run_group(char* stacks) {
  uint n = entry->threads;
  for (uint i = 0; i < n; i++) {
    fiber& f = fibers[i];
    f.ended = false;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stacks + i * stack_bytes;
    f.context.uc_stack.ss_size = stack_bytes;
    f.context.uc_link = &scheduler;
    makecontext(&f.context, fiber_main, 0);
  }
  for (bool backwards = false;; backwards = !backwards) {
    uint ended = 0;
    for (uint i = 0; i < n; i++) {
      current = backwards ? n - 1 - i : i;
      swapcontext(&scheduler, &fibers[current].context);
      ended += fibers[current].ended;
    }
    if (ended == n) return true;
    if (ended > 0) return false;
  }
}

}  // namespace

void rlx_barrier() { swapcontext(&fibers[current].context, &scheduler); }

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  int fd = open(argv[1], O_RDWR);
  size_t size = strtoull(argv[2], 0, 10);
  char* memory = (char*)mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  char* stacks = (char*)mmap(0, most_threads * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || stacks == MAP_FAILED) return 3;
  puts("ready");
  fflush(stdout);
  uint number, gx, gy;
  while (scanf("%u %u %u", &number, &gx, &gy) == 3) {
    if (number >= rlx_kernel_count) return 4;
    entry = &rlx_kernels[number];
    rlx_any bound[most_buffers + 1];
    uint sizes[most_buffers];
    if (entry->buffers > most_buffers) return 5;
    for (uint i = 0; i < entry->buffers; i++) {
      size_t offset;
      if (scanf("%zu %u", &offset, &sizes[i]) != 2 || offset > size || sizes[i] > size - offset) return 6;
      bound[i].p = memory + offset;
    }
    bound[entry->buffers].p = sizes;
    buffers = bound;
    shared = aligned_alloc(64, (entry->shared + 127) / 64 * 64);
    groups = uint3(gx, gy, 1u);
    bool ok = true;
    for (uint y = 0; y < gy && ok; y++)
      for (uint x = 0; x < gx && ok; x++) {
        group = uint3(x, y, 0u);
        memset(shared, 0xff, entry->shared); // as whatever ran before may leave it
        if (entry->barrier) {
          ok = run_group(stacks);
        } else {
          for (uint i = 0; i < entry->threads; i++) entry->run(buffers, shared, group, groups, i);
        }
      }
    free(shared);
    puts(ok ? "ok" : "threads of a group wait for others that have ended");
    fflush(stdout);
  }
  return 0;
}
