#include "tools/base/stack.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstring>

#include "tools/base/exit_code.h"

namespace moepack::cli {
namespace {

// What Linux gives to processes; 64 kB, which some containers and batch systems set, is less than
// one frame of the standard library's regular expressions, of OpenSSL or of libcurl may need.
constexpr size_t kUsualStack = 8u << 20;

struct StackedCall {
  const std::function<int()>& work;
  int status = kExitInternal;
};

void* RunCall(void* call) {
  auto* const stacked = static_cast<StackedCall*>(call);
  stacked->status = stacked->work();
  return nullptr;
}

}  // namespace

int RunWithStack(const std::function<int()>& work) {
  rlimit limit = {};
  const bool known = getrlimit(RLIMIT_STACK, &limit) == 0;
  if (!known || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kUsualStack) return work();
  StackedCall call{work};
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  int problem = pthread_attr_setstacksize(&attributes, kUsualStack);
  // std::thread has no attributes of its own.
  if (problem == 0) problem = pthread_setattr_default_np(&attributes);
  if (problem == 0) problem = pthread_create(&thread, &attributes, RunCall, &call);
  pthread_attr_destroy(&attributes);
  if (problem == 0) problem = pthread_join(thread, nullptr);
  if (problem == 0) return call.status;
  std::fprintf(
      stderr,
      "error: cannot start a thread with a stack of 8 MiB: %s\n"
      "hint: raise the limits of the shell: ulimit -s for the stack, ulimit -v for memory\n",
      std::strerror(problem));
  return kExitInternal;
}

}  // namespace moepack::cli
