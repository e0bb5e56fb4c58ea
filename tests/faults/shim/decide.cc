#include "tests/faults/shim/decide.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace faults {
namespace {

constexpr long kNever = -1;

struct State {
  uint32_t kinds = 0;
  long at = kNever, count = 1, every = 0;
  bool is_short = false, kills = false, clones = false;
  int error = EIO;
  const char* below = nullptr;
  size_t below_bytes = 0;
  Report* report = nullptr;
  int log = -1;
};
State state;
Report no_report;
std::atomic<bool> started = false;
std::atomic_flag log_lock = ATOMIC_FLAG_INIT;

long NumberOf(const char* variable, long otherwise) {
  const char* text = getenv(variable);
  return text == nullptr ? otherwise : strtol(text, nullptr, 10);
}

uint32_t KindsOf(const char* text) {
  uint32_t kinds = 0;
  for (const KindName& kind : kKinds) {
    const size_t bytes = strlen(kind.name);
    for (const char* at = text; at != nullptr; at = strchr(at, ',')) {
      if (*at == ',') ++at;
      if (strncmp(at, kind.name, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0'))
        kinds |= kind.kind;
    }
  }
  return kinds;
}

// Directly to the kernel: our own calls are not counted.
int RawOpen(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600));
}

void MapReport(const char* path) {
  if (path == nullptr) return;
  const int fd = RawOpen(path, O_RDWR);
  if (fd < 0) return;
  const long data =
      syscall(SYS_mmap, nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (data > 0) state.report = reinterpret_cast<Report*>(data);
}

bool IsBelow(const char* path) {
  if (state.below == nullptr) return true;
  return strncmp(path, state.below, state.below_bytes) == 0 &&
         (path[state.below_bytes] == '/' || path[state.below_bytes] == '\0');
}

void Note(const char* call, const char* path) {
  if (__atomic_fetch_add(&state.report->faults, 1, __ATOMIC_SEQ_CST) != 0) return;
  snprintf(state.report->call, sizeof(Report::call), "%s", call);
  snprintf(state.report->path, sizeof(Report::path), "%s", path);
}

void WriteWhole(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const long done = syscall(SYS_write, state.log, at, bytes);
    if (done <= 0) return;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
}

}  // namespace

bool Watches(uint32_t kinds) { return started && ((state.kinds & kinds) != 0 || state.log >= 0); }
bool Logs() { return started && state.log >= 0; }
bool EmulatesClones() { return started && state.clones; }

Path PathAt(int directory, const char* name) {
  Path path;
  if (name[0] == '/') {
    snprintf(path.text, kPathBytes, "%s", name);
  } else {
    Path folder;
    char link[40] = "/proc/self/cwd";
    if (directory != AT_FDCWD) snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
    if (syscall(SYS_readlinkat, AT_FDCWD, link, folder.text, kPathBytes - 1) <= 0) return {};
    const size_t bytes = strlen(folder.text);
    if (bytes + strlen(name) + 2 > kPathBytes) return {};
    memcpy(path.text, folder.text, bytes);
    path.text[bytes] = '/';
    strcpy(path.text + bytes + 1, name);
  }
  return IsBelow(path.text) ? path : Path();
}

Path PathOf(int fd) {
  Path path;
  char link[40];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  if (syscall(SYS_readlinkat, AT_FDCWD, link, path.text, kPathBytes - 1) <= 0) return {};
  return IsBelow(path.text) ? path : Path();
}

Fate Decide(uint32_t kind, const char* call, const char* path) {
  if (!started || (state.kinds & kind) == 0) return Fate::kHappens;
  const auto number =
      static_cast<long>(__atomic_fetch_add(&state.report->calls, 1, __ATOMIC_SEQ_CST));
  const bool here = state.at != kNever && number >= state.at && number - state.at < state.count;
  const bool again = state.every > 0 && number % state.every == state.every - 1;
  if (!here && !again) return Fate::kHappens;
  Note(call, path);
  if (state.kills) {
    if (kind == kWrite && number % 2 == 1) return Fate::kIsShort;
    KillIfChosen();
  }
  if (state.is_short) return Fate::kIsShort;
  errno = state.error;
  return Fate::kFails;
}

Fate DecideFor(uint32_t kind, const char* call, const Path& path) {
  return path.text[0] == '\0' ? Fate::kHappens : Decide(kind, call, path.text);
}

void KillIfChosen() {
  if (state.kills) syscall(SYS_kill, getpid(), SIGKILL);
}

void Log(const LogEntry& entry) {
  if (!Logs()) return;
  if (!IsBelow(entry.a) && !IsBelow(entry.b)) return;
  if (entry.a[0] == '\0' && entry.b[0] == '\0') return;
  char head[200];
  const int bytes = snprintf(head, sizeof(head), "%s %llu %zu %zu %zu\n", entry.op, entry.first,
                             strlen(entry.a), strlen(entry.b), entry.bytes);
  WriteWhole(head, static_cast<size_t>(bytes));
  WriteWhole(entry.a, strlen(entry.a));
  WriteWhole(entry.b, strlen(entry.b));
  WriteWhole(entry.data, entry.bytes);
  WriteWhole("\n", 1);
}

LogLock::LogLock() {
  while (Logs() && log_lock.test_and_set(std::memory_order_acquire)) sched_yield();
}
LogLock::~LogLock() {
  if (Logs()) log_lock.clear(std::memory_order_release);
}

void Start() {
  state.report = &no_report;
  MapReport(getenv(kReportVariable));
  if (const char* kinds = getenv(kKindsVariable)) state.kinds = KindsOf(kinds);
  state.at = NumberOf(kAtVariable, kNever);
  state.count = NumberOf(kCountVariable, 1);
  state.every = NumberOf(kEveryVariable, 0);
  state.error = static_cast<int>(NumberOf(kErrnoVariable, EIO));
  const char* how = getenv(kHowVariable);
  state.is_short = how != nullptr && strcmp(how, "short") == 0;
  state.kills = how != nullptr && strcmp(how, "kill") == 0;
  state.clones = getenv(kClonesVariable) != nullptr;
  state.below = getenv(kBelowVariable);
  if (state.below != nullptr) state.below_bytes = strlen(state.below);
  if (const char* log = getenv(kLogVariable))
    state.log = RawOpen(log, O_WRONLY | O_CREAT | O_APPEND);
  started = true;
}

void Stop() { started = false; }

}  // namespace faults

// Nothing is counted before main, where a failing allocation could only end the process.
namespace {
int (*real_main)(int, char**, char**);

int CountedMain(int argc, char** argv, char** environment) {
  faults::Start();
  const int status = real_main(argc, argv, environment);
  faults::Stop();
  return status;
}
}  // namespace

// The C library's own declaration of a program's entry point.
extern "C" int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv,
                                 void (*init)(), void (*fini)(), void (*loader_fini)(),
                                 void* stack_end) {
  using Start =
      int(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  auto* next = reinterpret_cast<Start*>(dlsym(RTLD_NEXT, "__libc_start_main"));
  real_main = main;
  return next(CountedMain, argc, argv, init, fini, loader_fini, stack_end);
}
