// A run of moepack in which a call fails.
#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace faults {

// The settings of the preloaded library (shim/protocol.h). Without `at` and `every`, calls are only
// counted.
struct Fault {
  std::string kinds;  // "open,write"
  std::string how = "error";
  int error = EIO;
  int64_t at = -1, count = 1, every = 0;
  bool clones = false;     // clones of files succeed
  std::string below = {};  // only calls for files below this directory of the run's; "": all
};

// Everything about files; threads, mappings and allocations are separate faults.
inline constexpr const char* kFileCalls =
    "open,read,write,fsync,rename,link,unlink,mkdir,truncate,mmap,clone,stat,lock";
// The calls that change files: a kill between two of them leaves a different state.
inline constexpr const char* kChangingCalls =
    "create,write,fsync,rename,link,unlink,mkdir,truncate,clone";

struct FaultRun {
  int status = -1, signal = 0;     // status is -1 when a signal ended it
  std::string out, err;            // what it printed
  uint64_t calls = 0, faults = 0;  // of the chosen kinds; those that failed
  std::string call, path;          // the first that failed
};

// Whether the library could be built here; the reason if not, for GTEST_SKIP.
bool CanFault();
inline constexpr const char* kNoFaults = "a sanitizer's library is preloaded already";

// Runs `moepack arguments...` in `directory`. Only calls for files below `directory` count. A run
// that hangs is ended by SIGALRM. With `log`, changes of files are recorded there.
FaultRun RunWithFault(const std::filesystem::path& directory,
                      const std::vector<std::string>& arguments, const Fault& fault,
                      const std::filesystem::path& log = {});

// For the child that becomes moepack: preloads the library and tells it the fault. `report` is a
// file for a Report, or "".
void PrepareFault(const Fault& fault, const std::string& below, const std::string& report);

// True in `make soak` (MOEPACK_SOAK is set): many points are tried, not few.
bool IsSoak();
// Which of `calls` points are tried: `few` of them, in a soak `many`, or all if MOEPACK_SOAK is
// "all". They are spread evenly, starting at a point that depends on `name`.
struct PointCounts {
  uint64_t few = 0, many = UINT64_MAX;
};
std::vector<int64_t> PointsOf(uint64_t calls, PointCounts counts, const std::string& name);

}  // namespace faults
