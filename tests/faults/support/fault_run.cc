#include "tests/faults/support/fault_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "fixtures/temp_dir.h"
#include "tests/faults/shim/protocol.h"
#include "tests/tools/child_process.h"

namespace faults {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kHangSeconds = 240;

#ifdef MOEPACK_FAULT_SHIM
constexpr const char* kShim = MOEPACK_FAULT_SHIM;
#else
constexpr const char* kShim = "";
#endif

void Set(const char* variable, const std::string& value) { setenv(variable, value.c_str(), 1); }

std::string WholePath(const fs::path& path) {
  return fs::canonical(path.parent_path()) / path.filename();
}

}  // namespace

bool CanFault() { return kShim[0] != '\0'; }

void PrepareFault(const Fault& fault, const std::string& below, const std::string& report) {
  alarm(kHangSeconds);
  Set(kKindsVariable, fault.kinds);
  Set(kAtVariable, std::to_string(fault.at));
  Set(kCountVariable, std::to_string(fault.count));
  Set(kEveryVariable, std::to_string(fault.every));
  Set(kHowVariable, fault.how);
  Set(kErrnoVariable, std::to_string(fault.error));
  Set(kBelowVariable, below);
  if (fault.clones) Set(kClonesVariable, "1");
  if (!report.empty()) Set(kReportVariable, report);
  Set("LD_PRELOAD", kShim);
}

FaultRun RunWithFault(const fs::path& directory, const std::vector<std::string>& arguments,
                      const Fault& fault, const fs::path& log) {
  const fixtures::TempDir dir;
  const std::string report_path = dir / "report";
  Report report = {};
  std::ofstream(report_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(&report), sizeof(report));
  const std::string below = fs::canonical(directory / fault.below),
                    log_path = log.empty() ? "" : WholePath(log);
  moepack::cli::ChildProcess child(directory, arguments, [&] {
    PrepareFault(fault, below, report_path);
    if (!log_path.empty()) Set(kLogVariable, log_path);
  });
  const moepack::cli::ChildEnd end = child.Wait();
  const std::string bytes = fixtures::ReadFile(report_path);
  std::memcpy(&report, bytes.data(), std::min(bytes.size(), sizeof(report)));
  FaultRun run;
  run.status = end.status;
  run.signal = end.signal;
  run.out = end.out;
  run.err = end.err;
  run.calls = report.calls;
  run.faults = report.faults;
  run.call = report.call;
  run.path = report.path;
  return run;
}

bool IsSoak() { return std::getenv("MOEPACK_SOAK") != nullptr; }

std::vector<int64_t> PointsOf(uint64_t calls, PointCounts counts, const std::string& name) {
  const char* soak = std::getenv("MOEPACK_SOAK");
  const bool all = soak != nullptr && std::string(soak) == "all";
  const uint64_t count = all ? calls : std::min(calls, IsSoak() ? counts.many : counts.few);
  uint64_t start = 0;
  for (const char c : name) start = start * 31 + static_cast<unsigned char>(c);
  std::vector<int64_t> points;
  for (uint64_t i = 0; i < count; ++i)
    points.push_back(static_cast<int64_t>((i * calls / count + start) % calls));
  std::sort(points.begin(), points.end());
  return points;
}

}  // namespace faults
