// Decides which call fails, and how. Uses nothing that allocates.
#pragma once

#include <cstddef>

#include "tests/faults/shim/protocol.h"

namespace faults {

enum class Fate { kHappens, kFails, kIsShort };

inline constexpr size_t kPathBytes = 4096;
struct Path {
  char text[kPathBytes] = "";
};

// True between the start and the end of main, if a kind is chosen or a log is kept.
bool Watches(uint32_t kinds);
bool Logs();
// Whether clones are to succeed everywhere (clones.h).
bool EmulatesClones();
// "" for anything without a file below the directory of kBelowVariable.
Path PathAt(int directory, const char* name);
Path PathOf(int fd);

// Counts one call of a chosen kind (of any, if it has several); may end the process. With kFails,
// sets errno.
Fate Decide(uint32_t kind, const char* call, const char* path);
// The same for file calls; those without a path do not count.
Fate DecideFor(uint32_t kind, const char* call, const Path& path);
// Ends the process if the fault is a kill.
void KillIfChosen();

// Appends a record if there is a log and `a` or `b` is below the directory.
struct LogEntry {
  const char* op;
  const char* a;
  const char* b = "";
  unsigned long long first = 0;
  const void* data = nullptr;
  size_t bytes = 0;
};
void Log(const LogEntry& entry);
// Held around a call and its record, so that the log keeps the order of the calls.
class LogLock {
 public:
  LogLock();
  ~LogLock();
  LogLock(const LogLock&) = delete;
  LogLock& operator=(const LogLock&) = delete;
};

// Reads the variables; calls are counted from here on.
void Start();
void Stop();

}  // namespace faults
